package io.penstock.kafka.sink.clients;

import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The daemon thread of a JVM that closes idle Kafka clients and refreshes the markers of idle queries. */
public final class ClientHousekeeper {
  private static final Logger LOG = LoggerFactory.getLogger(ClientHousekeeper.class);
  private static final long INTERVAL_SECONDS = 1;
  private static final Set<LongConsumer> TASKS = new CopyOnWriteArraySet<>();
  private static ScheduledExecutorService thread;

  private ClientHousekeeper() {}

  /** Runs {@code task} every second with the value of {@code System.nanoTime()}. Adding a task twice has no effect. */
  public static synchronized void add(LongConsumer task) {
    TASKS.add(task);
    if (thread == null) {
      thread = Executors.newSingleThreadScheduledExecutor(ClientHousekeeper::daemon);
      thread.scheduleWithFixedDelay(ClientHousekeeper::runAll, INTERVAL_SECONDS, INTERVAL_SECONDS, TimeUnit.SECONDS);
    }
  }

  private static void runAll() {
    long nowNanos = System.nanoTime();
    for (LongConsumer task : TASKS) {
      try {
        task.accept(nowNanos);
      } catch (RuntimeException error) {
        // An exception that left this method would end the timer.
        LOG.error("housekeeping of kafka clients failed; it is tried again", error);
      }
    }
  }

  private static Thread daemon(Runnable task) {
    Thread daemon = new Thread(task, "penstock-kafka-sink-housekeeper");
    daemon.setDaemon(true);
    return daemon;
  }
}
