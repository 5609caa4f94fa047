package io.penstock.state;

import io.penstock.spark42.HeapRows;
import io.penstock.spark42.PreloadedStores;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;

/** Loads the stores of a task whose query has yet to start ({@link PreloadedStores}). Only stores on the heap. */
public final class Preload {
  // Files are compressed, and a row of a map has several objects: about 13 bytes on the heap for one in a file.
  private static final double FIRST_GUESS = 30;

  private final TaskState task;
  private double bytesPerByte = FIRST_GUESS;

  /** {@code checkpoint} is a qualified path whose stores have the version {@code version}. */
  public Preload(SparkSession session, String checkpoint, int partitions, long version) {
    task = TaskState.of(session, checkpoint, partitions, version, 0, 1);
  }

  /** Loads the partitions of a store of a built-in operator. Returns how many; fewer when the heap has no room. */
  public int load(long operator, String operatorName, String name, int prefixColumns, int formatVersion)
      throws IOException {
    StoreLayout.Store store =
        new StoreLayout.Store(operator, operatorName, name, prefixColumns, formatVersion, "", List.of());
    StoreLayout layout = StoreLayout.read(store, task);
    int loaded = 0;
    while (loaded < task.partitions() && load(layout, loaded)) {
      loaded++;
    }
    return loaded;
  }

  private boolean load(StoreLayout layout, int partition) throws IOException {
    Path folder = task.storeId(layout.store(), partition).storeId().storeCheckpointLocation();
    FileSystem files = folder.getFileSystem(task.files());
    long written = Math.max(1, Arrays.stream(files.listStatus(folder)).mapToLong(FileStatus::getLen).sum());
    long bytes = PreloadedStores.load(folder.toString(), (long) (written * bytesPerByte), () -> rows(layout, partition));
    if (bytes > 0) {
      bytesPerByte = Math.max(1, (double) bytes / written);
    }
    return bytes > 0;
  }

  private HeapRows rows(StoreLayout layout, int partition) {
    StateStoreProvider provider = task.open(layout, partition);
    try {
      return HeapRows.load((HDFSBackedStateStoreProvider) provider, task.version());
    } finally {
      provider.close();
    }
  }
}
