package io.penstock.kafka.sink.clients;

import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Completes the calls that end a transaction although the thread is interrupted. Spark interrupts the threads of a
 * query that it stops. An interrupted producer would leave its transaction open, which blocks all readers until the
 * timeout.
 */
final class Uninterrupted {
  private static final int MAX_TIMEOUTS = 3;
  private static final int MAX_INTERRUPTS = 20;

  private Uninterrupted() {}

  /** Repeats {@code step} after timeouts and interrupts, which Kafka allows. Restores the interrupt flag afterwards. */
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
          if (++interrupts >= MAX_INTERRUPTS) {
            throw error;
          }
        } catch (TimeoutException error) {
          if (interrupted || ++timeouts >= MAX_TIMEOUTS) {
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
