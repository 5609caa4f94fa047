package io.penstock.host;

import java.util.concurrent.TimeUnit;

/**
 * Ends the JVM when the host has not renewed its lease in time. This works even while the host's Python process hangs
 * or is stopped by a signal.
 */
public final class LeaseWatch {
  private static final int EXIT_CODE = 86;
  private static final long CHECK_EVERY_MILLIS = 200;
  private static volatile long deadlineNanos;
  private static Thread thread;

  private LeaseWatch() {}

  /** The JVM lives for {@code millis} from now, unless this is called again. */
  public static synchronized void renew(long millis) {
    deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    if (thread == null) {
      thread = new Thread(LeaseWatch::watch, "lease-watch");
      thread.setDaemon(true);
      thread.start();
    }
  }

  private static void watch() {
    while (deadlineNanos - System.nanoTime() > 0) {
      try {
        Thread.sleep(CHECK_EVERY_MILLIS);
      } catch (InterruptedException error) {
        // Nothing may end the watch, so an interrupt is ignored.
        Thread.interrupted();
      }
    }
    Runtime.getRuntime().halt(EXIT_CODE);
  }
}
