package io.penstock.kafka.source;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;

/**
 * How far event times of partitions lie apart: the latest time that a batch reads, less the earliest that it leaves
 * behind. Rows that are left lie that far behind the maximum that makes the watermark; beyond its delay they are lost.
 */
final class SkewMeter {
  private final PartitionLogs logs;

  SkewMeter(PartitionLogs logs) {
    this.logs = logs;
  }

  /** Milliseconds; 0 when nothing is left behind, empty when it cannot be told. */
  OptionalLong measure(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, Map<TopicPartition, Long> latest) {
    Map<TopicPartition, Range> left = Range.between(ends, latest);
    if (left.isEmpty()) {
      return OptionalLong.of(0);
    }
    Map<TopicPartition, Range> read = Range.between(starts, ends);
    OptionalLong newest = extreme(lastPlaces(read), read, true);
    OptionalLong oldest = extreme(firstPlaces(left), left, false);
    if (newest.isEmpty() || oldest.isEmpty()) {
      return OptionalLong.empty();
    }
    return OptionalLong.of(Math.max(0, newest.getAsLong() - oldest.getAsLong()));
  }

  private OptionalLong extreme(Map<TopicPartition, Long> offsets, Map<TopicPartition, Range> ranges, boolean newest) {
    Map<TopicPartition, Run> runs = offsets.isEmpty() ? Map.of() : logs.runsAt(offsets, ranges);
    var times = runs.values().stream().map(newest ? Run::lastMillis : Run::firstMillis);
    var millis = times.filter(OptionalLong::isPresent).mapToLong(OptionalLong::getAsLong);
    return newest ? millis.max() : millis.min();
  }

  private static Map<TopicPartition, Long> firstPlaces(Map<TopicPartition, Range> ranges) {
    Map<TopicPartition, Long> places = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> places.put(partition, range.start()));
    return places;
  }

  private static Map<TopicPartition, Long> lastPlaces(Map<TopicPartition, Range> ranges) {
    Map<TopicPartition, Long> places = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> places.put(partition, EventTimeCuts.lastPlace(range, range.end())));
    return places;
  }
}
