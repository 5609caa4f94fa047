package io.penstock.kafka.source.broker;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.errors.InterruptException;

/**
 * Interrupts in the form that Spark understands. Spark stops a query by interrupting its thread, and then expects one
 * of Java's own exceptions. Kafka's {@code InterruptException} would make the stopped query a failed one.
 */
final class Interrupts {
  /** A call that may be interrupted. */
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

  /** Runs {@code action} without the thread's interrupt flag, and restores the flag afterwards. */
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
