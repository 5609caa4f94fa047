package io.penstock.kafka.source;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * Cuts by what the curves of the partitions tell, which are made sharper where a cut is measured: by one question to
 * the time index where it can be trusted, else by looking at a few records where the line between two knots is long.
 */
final class EventTimeCuts implements Cuts {
  private static final int MOST_LOOKS_AT_RECORDS = 16;

  private final Map<TopicPartition, Range> ranges;
  private final Map<TopicPartition, Curve> curves;
  private final Budget budget;
  private final PartitionLogs logs;
  private final TrustInIndex trust;
  private final long toleranceMillis;
  private final Map<TopicPartition, Long> caps = new LinkedHashMap<>();
  private final Set<Map.Entry<TopicPartition, Long>> looked = new HashSet<>();
  private final Cut nothing;
  private final Cut everything;

  /** Of partitions with something to read ({@code ranges}) and a curve each that is not empty. */
  EventTimeCuts(
      Map<TopicPartition, Range> ranges,
      Map<TopicPartition, Curve> curves,
      Budget budget,
      PartitionLogs logs,
      TrustInIndex trust,
      long toleranceMillis) {
    this.ranges = ranges;
    this.curves = curves;
    this.budget = budget;
    this.logs = logs;
    this.trust = trust;
    this.toleranceMillis = toleranceMillis;
    ranges.forEach((partition, range) -> caps.put(partition, budget.capOf(partition, range)));
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    ranges.forEach((partition, range) -> starts.put(partition, range.start()));
    nothing = new Cut(earliestMillis(), starts, 0);
    everything = new Cut(NEVER, caps, budget.loadOf(ranges, caps));
  }

  @Override
  public Cut nothing() {
    return nothing;
  }

  @Override
  public Cut everything() {
    return everything;
  }

  @Override
  public Cut estimate(long millis) {
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    ranges.forEach(
        (partition, range) ->
            ends.put(partition, curves.get(partition).cutAt(millis, range.start(), caps.get(partition))));
    return new Cut(millis, ends, budget.loadOf(ranges, ends));
  }

  @Override
  public Cut measure(long millis) {
    askIndex(millis);
    for (int looks = 0; looks < MOST_LOOKS_AT_RECORDS; looks++) {
      Map<TopicPartition, Long> offsets = worthLooking(millis, looks);
      if (offsets.isEmpty()) {
        break;
      }
      lookAt(offsets);
    }
    return estimate(millis);
  }

  @Override
  public long reachOf(Cut cut) {
    long reach = NEVER;
    for (Map.Entry<TopicPartition, Long> end : cut.ends().entrySet()) {
      if (end.getValue() < caps.get(end.getKey())) {
        reach = Math.min(reach, curves.get(end.getKey()).nextTimeAt(cut.millis(), end.getValue()));
      }
    }
    return reach == NEVER ? cut.millis() : reach;
  }

  private long earliestMillis() {
    return ranges.entrySet().stream()
        .mapToLong(entry -> curves.get(entry.getKey()).timeAt(entry.getValue().start()))
        .min()
        .orElse(0);
  }

  private void askIndex(long millis) {
    Set<TopicPartition> unknown = new HashSet<>();
    for (TopicPartition partition : ranges.keySet()) {
      if (trust.holdsFor(partition, millis) && curves.get(partition).gapAt(millis) != null) {
        unknown.add(partition);
      }
    }
    if (unknown.isEmpty()) {
      return;
    }
    Map<TopicPartition, Found> answers = logs.firstNotBefore(unknown, millis);
    Map<TopicPartition, Found> doubtful = new HashMap<>();
    for (TopicPartition partition : unknown) {
      Range range = ranges.get(partition);
      Found found = answers.getOrDefault(partition, new Found(range.end(), millis));
      if (TrustInIndex.isDoubtful(found, range, millis, toleranceMillis)) {
        doubtful.put(partition, found);
      } else {
        believe(partition, found, millis);
      }
    }
    verify(doubtful, millis);
  }

  private void believe(TopicPartition partition, Found found, long millis) {
    boolean inRange = found.offset() < ranges.get(partition).end();
    long offset = inRange ? found.offset() : ranges.get(partition).end();
    curves.get(partition).addExact(offset, millis, inRange ? Math.max(millis, found.millis()) : millis);
  }

  /** Looks at the records that follow a doubtful answer: they are as late as it says, or the index hides them. */
  private void verify(Map<TopicPartition, Found> doubtful, long millis) {
    if (doubtful.isEmpty()) {
      return;
    }
    Map<TopicPartition, Long> offsets = new HashMap<>();
    doubtful.forEach(
        (partition, found) -> offsets.put(partition, Math.max(found.offset(), ranges.get(partition).start())));
    Map<TopicPartition, Run> runs = logs.runsAt(offsets, ranges);
    doubtful.forEach(
        (partition, found) -> {
          Run run = runs.get(partition);
          if (run == null || run.firstMillis().isEmpty()) {
            curves.get(partition).addExact(offsets.get(partition), millis, millis);
          } else if (run.firstMillis().getAsLong() >= millis - toleranceMillis) {
            long until = Math.max(millis, Math.min(found.millis(), run.firstMillis().getAsLong()));
            curves.get(partition).addExact(offsets.get(partition), millis, until);
          } else {
            trust.hidden(partition, found.millis());
            note(partition, run);
          }
        });
  }

  private void lookAt(Map<TopicPartition, Long> offsets) {
    looked.addAll(offsets.entrySet());
    logs.runsAt(offsets, ranges).forEach(this::note);
  }

  private void note(TopicPartition partition, Run run) {
    curves.get(partition).add(run, toleranceMillis);
  }

  /** Where another look makes the cut at this time sharper, for partitions that the index does not tell. */
  private Map<TopicPartition, Long> worthLooking(long millis, int looks) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    ranges.forEach(
        (partition, range) -> {
          Gap gap = curves.get(partition).gapAt(millis);
          if (gap != null && !trust.holdsFor(partition, millis) && isWide(gap, range.start(), caps.get(partition))) {
            offsets.put(partition, offsetIn(gap, partition, millis, looks));
          }
        });
    offsets.entrySet().removeIf(looked::contains);
    return offsets;
  }

  private boolean isWide(Gap gap, long start, long cap) {
    return !gap.isShorterThan(2, start, cap) && !gap.isBriefer(toleranceMillis);
  }

  private long offsetIn(Gap gap, TopicPartition partition, long millis, int looks) {
    long start = ranges.get(partition).start();
    long cap = caps.get(partition);
    if (gap.above() == null) {
      return lastPlace(ranges.get(partition), cap);
    }
    long low = gap.below() == null ? start : Math.max(start, gap.below().offset());
    long high = Math.min(cap, gap.above().offset());
    if (high - low <= Curve.SHORT_ROWS) {
      return low;
    }
    long likely = curves.get(partition).cutAt(millis, start, cap);
    return looks % 2 == 0 && likely > low && likely < high ? likely : low + (high - low) / 2;
  }

  /** Where the time at the cap can be told; at the end of the log there must be records left to look at. */
  static long lastPlace(Range range, long cap) {
    return cap < range.end() ? cap : Math.max(range.start(), cap - Curve.SHORT_ROWS);
  }
}
