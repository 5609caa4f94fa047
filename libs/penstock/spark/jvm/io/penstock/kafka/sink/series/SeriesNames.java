package io.penstock.kafka.sink.series;

import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * The names of a series of batches in Kafka. The transactional id of a writer is also the consumer group that holds
 * its marker, so one prefixed ACL of each kind covers a series. The driver's is the prefix itself.
 */
public final class SeriesNames {
  private SeriesNames() {}

  /** The transactional id and marker group of the task that writes Spark's partition {@code partition}. */
  public static String ofPartition(String prefix, int partition) {
    return prefix + "#" + partition;
  }

  /** Those of the tasks that write Spark's partitions below {@code count}. */
  public static List<String> ofPartitions(String prefix, int count) {
    return IntStream.range(0, count).mapToObj(partition -> ofPartition(prefix, partition)).toList();
  }

  /** Whether {@code transactionalId} belongs to the series. {@code jobs/11} does not belong to {@code jobs/1}. */
  public static boolean belongs(String transactionalId, String prefix) {
    return Pattern.matches(Pattern.quote(prefix) + "(#[0-9]+)?", transactionalId);
  }
}
