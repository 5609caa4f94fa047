package io.penstock.kafka.source.skew;

import io.penstock.kafka.source.broker.OffsetRange;
import io.penstock.kafka.source.broker.PartitionLogs;
import io.penstock.kafka.source.broker.Sample;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The event-time skew between partitions: the latest event time that a batch reads minus the earliest that it leaves
 * unread. The watermark follows the latest time, so unread rows are dropped as late when the skew exceeds its delay.
 *
 * <p>Measures the skew every few batches, keeps the last value, and warns when it nears the watermark delay.
 */
public final class SkewGauge {
  private static final Logger LOG = LoggerFactory.getLogger(SkewGauge.class);
  private static final double WARNING_SHARE = 0.5;

  private final PartitionLogs logs;
  private final long everyBatches;
  private final long delayMillis;
  private long batches;
  private OptionalLong millis = OptionalLong.empty();

  /** With {@code everyBatches} 0 the skew is never measured, without {@code delayMillis} it never warns. */
  public SkewGauge(PartitionLogs logs, long everyBatches, OptionalLong delayMillis) {
    this.logs = logs;
    this.everyBatches = everyBatches;
    this.delayMillis = delayMillis.orElse(Long.MAX_VALUE);
  }

  public boolean isOn() {
    return everyBatches > 0;
  }

  public OptionalLong millis() {
    return millis;
  }

  public void afterPlan(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, Map<TopicPartition, Long> latest) {
    if (ends.equals(latest)) {
      millis = OptionalLong.of(0);
      return;
    }
    if (!ends.equals(starts) && batches++ % everyBatches == 0) {
      millis = measure(starts, ends, latest);
      if (millis.orElse(0) > WARNING_SHARE * delayMillis) {
        LOG.warn(
            "event times of partitions differ by {} ms; rows may be {} ms late at most",
            millis.getAsLong(),
            delayMillis);
      }
    }
  }

  /** The skew in milliseconds. 0 when the batch leaves no row unread; empty when samples have no event time. */
  OptionalLong measure(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, Map<TopicPartition, Long> latest) {
    Map<TopicPartition, OffsetRange> unread = OffsetRange.between(ends, latest);
    if (unread.isEmpty()) {
      return OptionalLong.of(0);
    }
    Map<TopicPartition, OffsetRange> read = OffsetRange.between(starts, ends);
    Map<TopicPartition, Long> lastRead = new LinkedHashMap<>();
    read.forEach((partition, range) -> lastRead.put(partition, range.lastSampleOffset(range.end())));
    OptionalLong newest = extreme(lastRead, read, true);
    OptionalLong oldest = extreme(OffsetRange.starts(unread), unread, false);
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
}
