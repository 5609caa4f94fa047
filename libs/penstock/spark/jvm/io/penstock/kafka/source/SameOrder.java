package io.penstock.kafka.source;

import java.util.Arrays;
import java.util.Comparator;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;

/**
 * Input partitions in the order of what they read. Spark hands out up to four in the order in which it came to know
 * the topic's partitions, another at the replay of a batch; a sink that remembers which Spark partitions it wrote (our
 * own, in its form per partition) would take one's rows for another's.
 */
final class SameOrder {
  private static final Comparator<KafkaOffsetRange> BY_PLACE =
      Comparator.<KafkaOffsetRange, String>comparing(range -> range.topicPartition().topic())
          .thenComparingInt(range -> range.topicPartition().partition())
          .thenComparingLong(KafkaOffsetRange::fromOffset);

  private SameOrder() {}

  static InputPartition[] of(InputPartition[] planned) {
    InputPartition[] ordered = planned.clone();
    Arrays.sort(ordered, Comparator.comparing(part -> ((KafkaBatchInputPartition) part).offsetRange(), BY_PLACE));
    return ordered;
  }
}
