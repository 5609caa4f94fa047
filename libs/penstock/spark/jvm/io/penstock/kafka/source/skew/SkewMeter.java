package io.penstock.kafka.source.skew;

import io.penstock.kafka.source.broker.OffsetRange;
import io.penstock.kafka.source.broker.PartitionLogs;
import io.penstock.kafka.source.broker.Sample;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;

/**
 * The event-time skew between partitions: the latest event time that a batch reads minus the earliest that it leaves
 * unread. The watermark follows the latest time, so unread rows are dropped as late when the skew exceeds its delay.
 */
public final class SkewMeter {
  private final PartitionLogs logs;

  public SkewMeter(PartitionLogs logs) {
    this.logs = logs;
  }

  /** The skew in milliseconds. 0 when the batch leaves no row unread; empty when samples have no event time. */
  public OptionalLong measure(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, Map<TopicPartition, Long> latest) {
    Map<TopicPartition, OffsetRange> unread = OffsetRange.between(ends, latest);
    if (unread.isEmpty()) {
      return OptionalLong.of(0);
    }
    Map<TopicPartition, OffsetRange> read = OffsetRange.between(starts, ends);
    OptionalLong newest = extreme(lastOffsets(read), read, true);
    OptionalLong oldest = extreme(firstOffsets(unread), unread, false);
    if (newest.isEmpty() || oldest.isEmpty()) {
      return OptionalLong.empty();
    }
    return OptionalLong.of(Math.max(0, newest.getAsLong() - oldest.getAsLong()));
  }

  private OptionalLong extreme(
      Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges, boolean newest) {
    Map<TopicPartition, Sample> samples = offsets.isEmpty() ? Map.of() : logs.samplesAt(offsets, ranges);
    var times = samples.values().stream().map(newest ? Sample::lastMillis : Sample::firstMillis);
    var millis = times.filter(OptionalLong::isPresent).mapToLong(OptionalLong::getAsLong);
    return newest ? millis.max() : millis.min();
  }

  private static Map<TopicPartition, Long> firstOffsets(Map<TopicPartition, OffsetRange> ranges) {
    Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> offsets.put(partition, range.start()));
    return offsets;
  }

  private static Map<TopicPartition, Long> lastOffsets(Map<TopicPartition, OffsetRange> ranges) {
    Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> offsets.put(partition, range.lastSampleOffset(range.end())));
    return offsets;
  }
}
