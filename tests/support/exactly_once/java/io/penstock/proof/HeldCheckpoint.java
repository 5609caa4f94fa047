package io.penstock.proof;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/** Spark's checkpoint files, where publishing {@code commits/N} waits while {@code hold-commits-N} exists. */
public final class HeldCheckpoint extends FileSystemBasedCheckpointFileManager {
  public HeldCheckpoint(Path path, Configuration settings) {
    super(path, settings);
  }

  @Override
  public void renameTempFile(Path temporary, Path target, boolean overwrite) {
    Path log = target.getParent();
    try {
      String hold = "hold-" + log.getName() + "-" + target.getName();
      Holds.pass(java.nio.file.Path.of(log.getParent().toUri().getPath(), hold));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    super.renameTempFile(temporary, target, overwrite);
  }
}
