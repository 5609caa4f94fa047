package io.penstock.kafka.source.broker;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** Look-ups in the logs of partitions: time index, samples of records, first offsets. */
public interface PartitionLogs {
  /** The first record at or after {@code millis}, by the time index. A partition without such a record is absent. */
  Map<TopicPartition, TimeIndexEntry> firstAtOrAfter(Set<TopicPartition> partitions, long millis);

  /** Samples that begin at these offsets, inside the ranges. A partition without a record there is absent. */
  Map<TopicPartition, Sample> samplesAt(Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges);

  /** The partitions that transactional producers are known to write. */
  Set<TopicPartition> writtenByTransactions(Set<TopicPartition> partitions);

  /** The first offsets that the broker still keeps. */
  Map<TopicPartition, Long> earliest(Set<TopicPartition> partitions);
}
