package io.penstock.kafka.source.plan;

import java.util.Arrays;
import java.util.Comparator;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;

/** A fixed order of a batch's input partitions. */
public final class PartitionOrder {
  private static final Comparator<KafkaOffsetRange> BY_OFFSET =
      Comparator.<KafkaOffsetRange, String>comparing(range -> range.topicPartition().topic())
          .thenComparingInt(range -> range.topicPartition().partition())
          .thenComparingLong(KafkaOffsetRange::fromOffset);

  private PartitionOrder() {}

  /**
   * Ordered by topic, partition, offset. Spark plans up to four of them in the order in which it discovered the topic's
   * partitions, and this order may differ when a batch is repeated. The Kafka sink's scope {@code partition} remembers
   * which Spark partitions it wrote, so their numbers must not change.
   */
  public static InputPartition[] of(InputPartition[] planned) {
    InputPartition[] ordered = planned.clone();
    Arrays.sort(ordered, Comparator.comparing(part -> ((KafkaBatchInputPartition) part).offsetRange(), BY_OFFSET));
    return ordered;
  }
}
