package io.penstock.checkpoint;

import io.penstock.spark42.PreloadedStores;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;
import org.apache.commons.io.function.IORunnable;
import org.apache.commons.lang3.exception.ExceptionUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's checkpoint files with a fence: a file is published only while the task still owns its checkpoint.
 *
 * <p>Local files are written with java.nio. On object stores a file appears when its stream is closed. Elsewhere it is
 * renamed by Spark's own manager. Spark creates one instance for each log and
 * each state store, on the driver and on executors, from the session's settings. Delta creates one for the checksums of
 * a table's versions, which need no fence ({@link Fence#of}).
 */
public class FencedCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
  private final Path root;
  private final boolean local;
  private final Fence fence;
  private final Configuration settings;

  public FencedCheckpointFileManager(Path path, Configuration settings) throws IOException {
    super(path, settings);
    root = path;
    this.settings = settings;
    local = "file".equals(fs().getUri().getScheme());
    fence = Fence.of(path, settings);
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    if (local || !(fence.publishes(path) || NewFiles.appearsAtClose(fs()))) {
      return super.createAtomic(path, overwrite);
    }
    if (fence.publishes(path)) {
      return new StoreStream<>(new ByteArrayOutputStream(),
          content -> hooked(path, () -> fence.publish(path, content.toByteArray())));
    }
    try {
      return new StoreStream<>(NewFiles.open(fs(), path, !overwrite),
          object -> hooked(path, () -> fence.guard(() -> close(object, path, overwrite))));
    } catch (IOException error) {
      return ExceptionUtils.rethrow(error);
    }
  }

  /** An object store says in its own words that a new object is there already. */
  private void close(FSDataOutputStream object, Path path, boolean overwrite) throws IOException {
    try {
      object.close();
    } catch (IOException error) {
      if (!overwrite && !(error instanceof InterruptedIOException) && exists(path)) {
        throw new FileAlreadyExistsException(path.toString());
      }
      throw error;
    }
  }

  @Override
  public FSDataOutputStream createTempFile(Path path) {
    if (!local) {
      return super.createTempFile(path);
    }
    try {
      return new FSDataOutputStream(LocalFiles.create(LocalFiles.of(path)), null);
    } catch (IOException error) {
      return ExceptionUtils.rethrow(error);
    }
  }

  @Override
  public void renameTempFile(Path temporary, Path target, boolean overwrite) {
    unchecked(() -> hooked(target, () -> publishGuarded(temporary, target, overwrite)));
  }

  private void hooked(Path target, IORunnable publish) throws IOException {
    Optional<BatchHooks.Entry> entry = BatchHooks.entryOf(root, target);
    List<BatchHook> hooks = entry.map(found -> BatchHooks.of(settings)).orElse(List.of());
    entry.ifPresent(next -> hooks.forEach(told -> {
      if (next.isCommit()) {
        told.beforeCommit(next.batch());
      } else {
        told.beforePlan(next.batch());
      }
    }));
    publish.run();
    entry.ifPresent(published -> hooks.forEach(told -> {
      if (published.isCommit()) {
        told.afterCommit(published.batch());
      } else {
        told.planned(published.batch());
      }
    }));
  }

  private void publishGuarded(Path temporary, Path target, boolean overwrite) throws IOException {
    try {
      fence.guard(() -> publish(temporary, target, overwrite));
    } catch (FencedException error) {
      delete(temporary);
      throw error;
    }
  }

  private void publish(Path temporary, Path target, boolean overwrite) throws IOException {
    if (local) {
      LocalFiles.publish(LocalFiles.of(temporary), LocalFiles.of(target), overwrite);
    } else if (overwrite) {
      replace(temporary, target);
    } else {
      super.renameTempFile(temporary, target, false);
    }
  }

  /** Spark keeps the old file, and says nothing, where a rename refuses to replace one, as that of HDFS does. */
  private void replace(Path temporary, Path target) throws IOException {
    if (fs() instanceof DistributedFileSystem hdfs) {
      hdfs.rename(temporary, target, Options.Rename.OVERWRITE);
    } else if (!fs().rename(temporary, target)) {
      fs().delete(target, false);
      if (!fs().rename(temporary, target)) {
        throw new IOException("cannot be renamed to " + target);
      }
    }
  }

  /** A store looks for its files first, and then for what it has loaded. */
  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    PreloadedStores.begins(path, settings);
    return super.list(path, filter);
  }

  @Override
  public FSDataInputStream open(Path path) {
    return PreloadedStores.watched(super.open(path), settings);
  }

  @Override
  public void mkdirs(Path path) {
    if (local) {
      unchecked(() -> Files.createDirectories(LocalFiles.of(path)));
    } else {
      super.mkdirs(path);
    }
  }

  @Override
  public boolean exists(Path path) {
    return local ? Files.exists(LocalFiles.of(path)) : super.exists(path);
  }

  @Override
  public void delete(Path path) {
    if (local) {
      unchecked(() -> LocalFiles.deleteTree(LocalFiles.of(path)));
    } else {
      super.delete(path);
    }
  }

  @Override
  public Path createCheckpointDirectory() {
    if (!local) {
      return super.createCheckpointDirectory();
    }
    Path qualified = fs().makeQualified(root);
    mkdirs(qualified);
    return qualified;
  }

  /** Throws IOException through Spark's Scala interfaces, which expect it but declare no exceptions. */
  private static void unchecked(IORunnable action) {
    try {
      action.run();
    } catch (IOException error) {
      ExceptionUtils.rethrow(error);
    }
  }
}
