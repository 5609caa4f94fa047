package io.penstock.checkpoint;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Before each commit: a file that the task has put into its output's folder is still there. */
public final class KeptFile implements BatchHook {
  private final Path file;
  private final Configuration settings;
  private final String otherwise;

  /** {@code otherwise}: the error message if the file is gone. */
  public KeptFile(String file, Configuration settings, String otherwise) {
    this.file = new Path(file);
    this.settings = settings;
    this.otherwise = otherwise;
  }

  @Override
  public void planned(long batch) {}

  @Override
  public void beforeCommit(long batch) {
    try {
      if (!file.getFileSystem(settings).exists(file)) {
        throw new LostOutputException(otherwise);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void afterCommit(long batch) {}
}
