package io.penstock.kafka.source;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.errors.InterruptException;

/**
 * Spark stops a query by interrupting its thread, and takes only errors of Java's own for that: Kafka's
 * {@code InterruptException} would make a stopped query a failed one.
 */
final class Interrupts {
  /** Something that may be interrupted. */
  @FunctionalInterface
  interface Call<T> {
    T run() throws InterruptedException;
  }

  private Interrupts() {}

  static <T> T translate(Call<T> call) {
    try {
      return call.run();
    } catch (InterruptedException | InterruptException error) {
      Thread.currentThread().interrupt();
      InterruptedIOException interrupted = new InterruptedIOException("interrupted while asking Kafka");
      interrupted.initCause(error);
      throw new UncheckedIOException(interrupted);
    }
  }

  /** Runs something that must come to its end although the thread was interrupted, and leaves it interrupted. */
  static void without(Runnable action) {
    boolean interrupted = Thread.interrupted();
    try {
      action.run();
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
