package io.penstock.kafka.source.broker;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The unread offsets of a partition: {@code [start, end)}. */
public record OffsetRange(long start, long end) {
  /** The length of a range that is too short to be worth another sample. */
  public static final long SHORT_ROWS = 16;

  public long rows() {
    return end - start;
  }

  /**
   * The last offset at which a sample of the rows before {@code cap} can be taken. At the end of the log this is a few
   * offsets earlier, so that there are records to read.
   */
  public long lastSampleOffset(long cap) {
    return cap < end ? cap : Math.max(start, cap - SHORT_ROWS);
  }

  public static Map<TopicPartition, Long> starts(Map<TopicPartition, OffsetRange> ranges) {
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> starts.put(partition, range.start));
    return starts;
  }

  /** The ranges of the partitions that have unread offsets. A partition that {@code starts} does not name has none. */
  public static Map<TopicPartition, OffsetRange> between(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, OffsetRange> ranges = new LinkedHashMap<>();
    ends.forEach(
        (partition, end) -> {
          Long start = starts.get(partition);
          if (start != null && end > start) {
            ranges.put(partition, new OffsetRange(start, end));
          }
        });
    return ranges;
  }
}
