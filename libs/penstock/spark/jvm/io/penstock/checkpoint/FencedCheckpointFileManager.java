package io.penstock.checkpoint;

import java.io.IOException;
import java.nio.file.Files;
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

  public FencedCheckpointFileManager(Path path, Configuration settings) throws IOException {
    super(path, settings);
    root = path;
    local = "file".equals(fs().getUri().getScheme());
    fence = Fence.of(settings);
  }

  @Override
  public FSDataOutputStream createTempFile(Path path) {
    if (!local) {
      return super.createTempFile(path);
    }
    return Unchecked.run(() -> new FSDataOutputStream(LocalFiles.create(LocalFiles.of(path)), null));
  }

  @Override
  public void renameTempFile(Path temporary, Path target, boolean overwrite) {
    Unchecked.run(
        () -> {
          publishOrDelete(temporary, target, overwrite);
          return null;
        });
  }

  private void publishOrDelete(Path temporary, Path target, boolean overwrite) throws IOException {
    try {
      fence.guard(
          () -> {
            publish(temporary, target, overwrite);
            return null;
          });
    } catch (FencedException error) {
      delete(temporary);
      throw error;
    }
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
    if (!local) {
      super.mkdirs(path);
      return;
    }
    Unchecked.run(() -> Files.createDirectories(LocalFiles.of(path)));
  }

  @Override
  public boolean exists(Path path) {
    return local ? Files.exists(LocalFiles.of(path)) : super.exists(path);
  }

  @Override
  public void delete(Path path) {
    if (!local) {
      super.delete(path);
      return;
    }
    Unchecked.run(
        () -> {
          LocalFiles.deleteTree(LocalFiles.of(path));
          return null;
        });
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
}
