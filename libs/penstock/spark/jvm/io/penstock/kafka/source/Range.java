package io.penstock.kafka.source;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** What of a partition is yet to be read: offsets {@code [start, end)}. */
record Range(long start, long end) {
  long rows() {
    return end - start;
  }

  /** The ranges of partitions that have something to read; a partition without a start has nothing. */
  static Map<TopicPartition, Range> between(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Range> ranges = new LinkedHashMap<>();
    ends.forEach(
        (partition, end) -> {
          Long start = starts.get(partition);
          if (start != null && end > start) {
            ranges.put(partition, new Range(start, end));
          }
        });
    return ranges;
  }
}
