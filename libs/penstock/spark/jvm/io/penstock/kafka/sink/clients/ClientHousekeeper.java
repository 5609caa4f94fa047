package io.penstock.kafka.sink.clients;

import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.apache.spark.util.ThreadUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The daemon thread of a JVM that closes idle Kafka clients and refreshes the markers of idle queries. */
public final class ClientHousekeeper {
  private static final Logger LOG = LoggerFactory.getLogger(ClientHousekeeper.class);
  private static final ScheduledExecutorService THREAD =
      ThreadUtils.newDaemonSingleThreadScheduledExecutor("penstock-kafka-sink-housekeeper");

  private ClientHousekeeper() {}

  /** Runs {@code task} every second, for ever, with the value of {@code System.nanoTime()}. */
  public static void everySecond(LongConsumer task) {
    THREAD.scheduleWithFixedDelay(() -> run(task), 1, 1, TimeUnit.SECONDS);
  }

  private static void run(LongConsumer task) {
    try {
      task.accept(System.nanoTime());
    } catch (RuntimeException error) {
      // An exception that left this method would end the timer.
      LOG.error("housekeeping of kafka clients failed; it is tried again", error);
    }
  }
}
