package io.penstock.kafka.sink;

import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Runs the calls that end a transaction to their end. Spark interrupts the threads of a query that is stopped; a
 * producer that is interrupted there would leave its transaction open until it times out, and hold up all readers.
 */
final class Uninterrupted {
  private static final int MOST_TIMEOUTS = 3;
  private static final int MOST_INTERRUPTS = 20;

  private Uninterrupted() {}

  /** Repeats {@code step}, which Kafka allows after timeouts and interrupts. An interrupt is kept for afterwards. */
  static void run(Runnable step) {
    boolean interrupted = Thread.interrupted();
    int timeouts = 0;
    int interrupts = 0;
    try {
      while (true) {
        try {
          step.run();
          return;
        } catch (InterruptException error) {
          // Kafka has set the flag again.
          Thread.interrupted();
          interrupted = true;
          if (++interrupts >= MOST_INTERRUPTS) {
            throw error;
          }
        } catch (TimeoutException error) {
          if (interrupted || ++timeouts >= MOST_TIMEOUTS) {
            throw error;
          }
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
