package io.penstock.kafka.sink;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The daemon thread of a JVM that closes idle clients and keeps the markers of idle queries alive. */
final class SinkKeeper {
  private static final Logger LOG = LoggerFactory.getLogger(SinkKeeper.class);
  private static final long INTERVAL_SECONDS = 1;
  private static ScheduledExecutorService thread;

  private SinkKeeper() {}

  static synchronized void start() {
    if (thread == null) {
      thread = Executors.newSingleThreadScheduledExecutor(SinkKeeper::daemon);
      thread.scheduleWithFixedDelay(SinkKeeper::look, INTERVAL_SECONDS, INTERVAL_SECONDS, TimeUnit.SECONDS);
    }
  }

  private static void look() {
    long nowNanos = System.nanoTime();
    try {
      SinkRuns.refresh(nowNanos);
      PartitionProducers.closeIdle(nowNanos);
      SharedAdmins.closeIdle(nowNanos);
    } catch (RuntimeException error) {
      // Thrown on, it would end the timer.
      LOG.error("the keeper of kafka clients failed; it tries again", error);
    }
  }

  private static Thread daemon(Runnable task) {
    Thread daemon = new Thread(task, "penstock-kafka-sink-keeper");
    daemon.setDaemon(true);
    return daemon;
  }
}
