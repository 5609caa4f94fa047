package io.penstock.kafka.sink;

import java.util.regex.Pattern;

/**
 * The names of a series of batches in Kafka. The transactional id of a writer is also the consumer group that holds
 * its marker, so one prefixed ACL of each kind covers a series.
 */
final class SeriesNames {
  private SeriesNames() {}

  /** Of the driver: the transaction of a batch, the plan of a batch of many transactions. */
  static String ofDriver(String prefix) {
    return prefix;
  }

  /** Of the task that writes Spark's partition {@code partition}. */
  static String ofPartition(String prefix, int partition) {
    return prefix + "#" + partition;
  }

  /** Whether {@code transactionalId} belongs to the series; {@code jobs/1} has no part of {@code jobs/11}. */
  static boolean belongs(String transactionalId, String prefix) {
    return Pattern.matches(Pattern.quote(prefix) + "(#[0-9]+)?", transactionalId);
  }
}
