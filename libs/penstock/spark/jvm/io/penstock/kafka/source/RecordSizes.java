package io.penstock.kafka.source;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The mean size of the records of each partition, measured at a few records and again every few limited batches. */
final class RecordSizes {
  private static final int BATCHES_BETWEEN = 10;

  private final PartitionLogs logs;
  private final Map<TopicPartition, Double> meanBytes = new HashMap<>();
  private int batches;

  RecordSizes(PartitionLogs logs) {
    this.logs = logs;
  }

  /** Bytes by partition; one that has no records left is absent. Looks only at partitions it does not know. */
  Map<TopicPartition, Double> of(Map<TopicPartition, Range> ranges) {
    Map<TopicPartition, Range> unknown = new LinkedHashMap<>(ranges);
    unknown.keySet().removeAll(meanBytes.keySet());
    measure(unknown);
    return meanBytes;
  }

  /** To be called for each limited batch. */
  void refresh(Map<TopicPartition, Range> ranges) {
    batches++;
    if (batches % BATCHES_BETWEEN == 0) {
      measure(ranges);
    }
  }

  private void measure(Map<TopicPartition, Range> ranges) {
    if (ranges.isEmpty()) {
      return;
    }
    Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> offsets.put(partition, range.start()));
    logs.runsAt(offsets, ranges)
        .forEach((partition, run) -> meanBytes.merge(partition, run.meanBytes(), (old, fresh) -> (old + fresh) / 2));
  }
}
