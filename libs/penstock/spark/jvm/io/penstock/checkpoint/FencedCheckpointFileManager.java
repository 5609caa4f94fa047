package io.penstock.checkpoint;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;
import org.apache.commons.io.function.IORunnable;
import org.apache.commons.lang3.exception.ExceptionUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's checkpoint files with a fence: a file is published only while the task still owns its checkpoint.
 *
 * <p>Local files are written with java.nio, others by Spark's own manager. Spark creates one instance for each log and
 * each state store, on the driver and on executors, from the session's settings.
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
    fence = Fence.of(settings);
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
    Optional<BatchHooks.Entry> entry = BatchHooks.entryOf(root, target);
    List<BatchHook> hooks = entry.map(found -> BatchHooks.of(settings)).orElse(List.of());
    entry.ifPresent(next -> hooks.forEach(told -> {
      if (next.isCommit()) {
        told.beforeCommit(next.batch());
      } else {
        told.beforePlan(next.batch());
      }
    }));
    publishGuarded(temporary, target, overwrite);
    entry.ifPresent(published -> hooks.forEach(told -> {
      if (published.isCommit()) {
        told.afterCommit(published.batch());
      } else {
        told.planned(published.batch());
      }
    }));
  }

  private void publishGuarded(Path temporary, Path target, boolean overwrite) {
    unchecked(() -> {
      try {
        fence.guard(() -> publish(temporary, target, overwrite));
      } catch (FencedException error) {
        delete(temporary);
        throw error;
      }
    });
  }

  private void publish(Path temporary, Path target, boolean overwrite) throws IOException {
    if (local) {
      LocalFiles.publish(LocalFiles.of(temporary), LocalFiles.of(target), overwrite);
    } else {
      super.renameTempFile(temporary, target, overwrite);
    }
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
