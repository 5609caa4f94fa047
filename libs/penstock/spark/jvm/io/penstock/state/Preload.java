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
  private final String checkpoint;
  private double mostSeen;

  /**
   * {@code checkpoint} is a qualified path whose stores have the version {@code version}, written by this copy. What was
   * loaded for it before is given up.
   */
  public Preload(SparkSession session, String checkpoint, String copy, int partitions, long version) {
    this.checkpoint = checkpoint;
    task = TaskState.of(session, checkpoint, partitions, version, 0, 1);
    PreloadedStores.begin(checkpoint, copy);
    PreloadedStores.watch(task.files(), checkpoint, copy);
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
    long expected = (long) (written * (mostSeen == 0 ? FIRST_GUESS : mostSeen));
    long bytes = PreloadedStores.load(checkpoint, folder.toString(), expected, () -> rows(layout, partition));
    // The greatest of all partitions: another may be filled quite differently.
    mostSeen = Math.max(mostSeen, (double) bytes / written);
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
