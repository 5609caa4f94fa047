package io.penstock.kafka.source.broker;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.common.TopicPartition;

/** Look-ups in the logs of partitions: time index, samples of records. */
public interface PartitionLogs {
  /** The first record at or after {@code millis}, by the time index. A partition without such a record is absent. */
  Map<TopicPartition, ListOffsetsResultInfo> firstAtOrAfter(Set<TopicPartition> partitions, long millis);

  /** Samples that begin at these offsets, inside the ranges. A partition without a record there is absent. */
  Map<TopicPartition, Sample> samplesAt(Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges);

  /** The partitions that transactional producers are known to write. */
  Set<TopicPartition> writtenByTransactions(Set<TopicPartition> partitions);
}
