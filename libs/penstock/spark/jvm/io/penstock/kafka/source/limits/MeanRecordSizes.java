package io.penstock.kafka.source.limits;

import io.penstock.kafka.source.broker.OffsetRange;
import io.penstock.kafka.source.broker.PartitionLogs;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The mean record size of each partition, measured on samples and measured again every 10 limited batches. */
public final class MeanRecordSizes {
  private static final int BATCHES_BETWEEN = 10;

  private final PartitionLogs logs;
  private final Map<TopicPartition, Double> meanBytes = new HashMap<>();
  private int batches;

  public MeanRecordSizes(PartitionLogs logs) {
    this.logs = logs;
  }

  /** Mean bytes by partition. Samples only partitions of unknown size; a partition without records is absent. */
  public Map<TopicPartition, Double> of(Map<TopicPartition, OffsetRange> ranges) {
    Map<TopicPartition, OffsetRange> unknown = new LinkedHashMap<>(ranges);
    unknown.keySet().removeAll(meanBytes.keySet());
    measure(unknown);
    return meanBytes;
  }

  /** Measures again when it is time. To be called for each limited batch. */
  public void refresh(Map<TopicPartition, OffsetRange> ranges) {
    batches++;
    if (batches % BATCHES_BETWEEN == 0) {
      measure(ranges);
    }
  }

  private void measure(Map<TopicPartition, OffsetRange> ranges) {
    if (ranges.isEmpty()) {
      return;
    }
    logs.samplesAt(OffsetRange.starts(ranges), ranges)
        .forEach((partition, run) -> meanBytes.merge(partition, run.meanBytes(), (old, fresh) -> (old + fresh) / 2));
  }
}
