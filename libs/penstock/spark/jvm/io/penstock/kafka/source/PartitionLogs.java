package io.penstock.kafka.source;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** What can be asked of the logs of partitions. */
interface PartitionLogs {
  /** By the time index; a partition without such a record is absent. */
  Map<TopicPartition, Found> firstNotBefore(Set<TopicPartition> partitions, long millis);

  /** The records at these offsets and before these ends; a partition that has none is absent. */
  Map<TopicPartition, Run> runsAt(Map<TopicPartition, Long> offsets, Map<TopicPartition, Range> ranges);

  /** The partitions that are known to be written by transactions. */
  Set<TopicPartition> writtenByTransactions(Set<TopicPartition> partitions);

  /** The first offsets that are still there. */
  Map<TopicPartition, Long> earliest(Set<TopicPartition> partitions);
}
