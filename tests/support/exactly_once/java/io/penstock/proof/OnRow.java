package io.penstock.proof;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.TaskContext;

/** What can happen to a row on its way to the sink; called by Spark's SQL function {@code reflect}. */
public final class OnRow {
  private OnRow() {}

  /** Waits here while the file {@code hold} exists. */
  public static String hold(String value, String hold) throws IOException {
    Holds.pass(Path.of(hold));
    return value;
  }

  /** Fails the first time, which the file {@code done} remembers. */
  public static String failOnce(String value, String done) throws IOException {
    try {
      Files.createFile(Path.of(done));
    } catch (FileAlreadyExistsException again) {
      return value;
    }
    throw new IllegalStateException("this attempt fails on purpose");
  }

  /** Keeps a partition's first attempt until another attempt is at the same row: then both go on, side by side. */
  public static String overtake(String value, String overtaken) throws IOException {
    Path path = Path.of(overtaken);
    if (TaskContext.get().attemptNumber() == 0) {
      Holds.awaitThat(() -> Files.exists(path));
    } else if (!Files.exists(path)) {
      Files.createFile(path);
    }
    return value;
  }
}
