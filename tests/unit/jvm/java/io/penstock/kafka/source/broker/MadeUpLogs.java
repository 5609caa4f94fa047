package io.penstock.kafka.source.broker;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.common.TopicPartition;

/** Logs in memory: the times of records by offset, with markers of transactions. Answers as a broker does. */
public final class MadeUpLogs implements PartitionLogs {
  public static final double RECORD_BYTES = 100;

  /** A record that tells none. */
  public static final long NO_TIME = -1;

  private final Map<TopicPartition, long[]> millis = new LinkedHashMap<>();
  private final Map<TopicPartition, Set<Long>> markers = new HashMap<>();
  private final Set<TopicPartition> knownByTransactions = new HashSet<>();
  public int indexLookups;
  public int sampleLookups;

  public static TopicPartition partition(int number) {
    return new TopicPartition("topic", number);
  }

  public MadeUpLogs with(int number, LongStream times) {
    millis.put(partition(number), times.toArray());
    return this;
  }

  public MadeUpLogs withMarkersOnly(int number, int count, long clockMillis) {
    markers.put(partition(number), LongStream.range(0, count).boxed().collect(Collectors.toSet()));
    return with(number, LongStream.range(0, count).map(at -> clockMillis));
  }

  /** Makes every so-maniest record a marker with the clock's time. */
  public MadeUpLogs markEvery(int records, long clockMillis) {
    millis.forEach(
        (partition, times) -> {
          for (int offset = records; offset < times.length; offset += records) {
            times[offset] = clockMillis;
            markers.computeIfAbsent(partition, fresh -> new HashSet<>()).add((long) offset);
          }
        });
    return this;
  }

  public MadeUpLogs knownToBeTransactional() {
    knownByTransactions.addAll(millis.keySet());
    return this;
  }

  public Map<TopicPartition, Long> starts() {
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    millis.keySet().forEach(partition -> starts.put(partition, 0L));
    return starts;
  }

  public Map<TopicPartition, Long> ends() {
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    millis.forEach((partition, times) -> ends.put(partition, (long) times.length));
    return ends;
  }

  public long timeAt(TopicPartition partition, long offset) {
    return millis.get(partition)[(int) offset];
  }

  public boolean isMarker(TopicPartition partition, long offset) {
    return markers.getOrDefault(partition, Set.of()).contains(offset);
  }

  @Override
  public Map<TopicPartition, ListOffsetsResultInfo> firstAtOrAfter(Set<TopicPartition> partitions, long asked) {
    indexLookups++;
    Map<TopicPartition, ListOffsetsResultInfo> found = new HashMap<>();
    for (TopicPartition partition : partitions) {
      long[] times = millis.get(partition);
      for (int offset = 0; offset < times.length; offset++) {
        if (times[offset] >= asked) {
          found.put(partition, new ListOffsetsResultInfo(offset, times[offset], Optional.empty()));
          break;
        }
      }
    }
    return found;
  }

  @Override
  public Map<TopicPartition, Sample> samplesAt(
      Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges) {
    sampleLookups++;
    Map<TopicPartition, Sample> runs = new HashMap<>();
    offsets.forEach(
        (partition, offset) -> {
          long[] before = LongStream.range(Math.max(0, offset - Sample.LEAD), offset).toArray();
          long[] from = LongStream.range(offset, ranges.get(partition).end())
              .filter(at -> !isMarker(partition, at)).limit(Sample.RECORDS).toArray();
          long[] there = LongStream.concat(Arrays.stream(before), Arrays.stream(from))
              .filter(at -> !isMarker(partition, at)).toArray();
          if (from.length > 0) {
            List<Sample.Point> timed = Arrays.stream(there)
                .mapToObj(at -> new Sample.Point(at, timeAt(partition, at)))
                .filter(point -> point.millis() != NO_TIME)
                .toList();
            runs.put(partition, Sample.of(offset, timed, from.length == Sample.RECORDS, RECORD_BYTES));
          }
        });
    return runs;
  }

  @Override
  public Set<TopicPartition> writtenByTransactions(Set<TopicPartition> partitions) {
    Set<TopicPartition> found = new HashSet<>(partitions);
    found.retainAll(knownByTransactions);
    return found;
  }
}
