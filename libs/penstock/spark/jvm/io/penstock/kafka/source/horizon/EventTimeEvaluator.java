package io.penstock.kafka.source.horizon;

import io.penstock.kafka.source.broker.OffsetRange;
import io.penstock.kafka.source.broker.PartitionLogs;
import io.penstock.kafka.source.broker.Sample;
import io.penstock.kafka.source.limits.BatchBudget;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Computes the candidate batch for a given horizon by the event-time curves of the partitions. Measuring a candidate
 * adds points to the curves: from one look-up in the time index for trusted partitions, from samples of records for the
 * others.
 */
public final class EventTimeEvaluator {
  /** Later than any event, and far enough from the largest long to calculate with. */
  public static final long AFTER_ALL_EVENTS = Long.MAX_VALUE / 4;

  private static final int MAX_SAMPLING_ROUNDS = 16;

  private final Map<TopicPartition, OffsetRange> ranges;
  private final Map<TopicPartition, EventTimeCurve> curves;
  private final BatchBudget budget;
  private final PartitionLogs logs;
  private final TimeIndexTrust trust;
  private final long toleranceMillis;
  private final Map<TopicPartition, Long> caps = new LinkedHashMap<>();
  private final Set<Map.Entry<TopicPartition, Long>> sampled = new HashSet<>();

  /** The candidate that reads nothing. */
  final BatchCandidate empty;

  /** The candidate at {@link #AFTER_ALL_EVENTS}: the end of each partition is bounded by the budget for it alone. */
  public final BatchCandidate full;

  /** Every partition of {@code ranges} needs a curve with at least one point. */
  public EventTimeEvaluator(
      Map<TopicPartition, OffsetRange> ranges,
      Map<TopicPartition, EventTimeCurve> curves,
      BatchBudget budget,
      PartitionLogs logs,
      TimeIndexTrust trust,
      long toleranceMillis) {
    this.ranges = ranges;
    this.curves = curves;
    this.budget = budget;
    this.logs = logs;
    this.trust = trust;
    this.toleranceMillis = toleranceMillis;
    ranges.forEach((partition, range) -> caps.put(partition, budget.capOf(partition, range)));
    empty = new BatchCandidate(earliestMillis(), OffsetRange.starts(ranges), 0);
    full = new BatchCandidate(AFTER_ALL_EVENTS, caps, budget.loadOf(ranges, caps));
  }

  /** The candidate at this horizon, by what is known now. Looks nothing up. */
  BatchCandidate estimate(long horizonMillis) {
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    ranges.forEach(
        (partition, range) ->
            ends.put(partition, curves.get(partition).offsetAt(horizonMillis, range.start(), caps.get(partition))));
    return new BatchCandidate(horizonMillis, ends, budget.loadOf(ranges, ends));
  }

  /** The candidate at this horizon after look-ups in the logs. */
  public BatchCandidate measure(long horizonMillis) {
    askTimeIndex(horizonMillis);
    for (int round = 0; round < MAX_SAMPLING_ROUNDS; round++) {
      Map<TopicPartition, Long> offsets = samplesNeeded(horizonMillis, round);
      if (offsets.isEmpty()) {
        break;
      }
      sample(offsets);
    }
    return estimate(horizonMillis);
  }

  /** The latest horizon that surely gives the same ends as {@code candidate}. */
  long lastEqualHorizon(BatchCandidate candidate) {
    long last = AFTER_ALL_EVENTS;
    for (Map.Entry<TopicPartition, Long> end : candidate.ends().entrySet()) {
      if (end.getValue() < caps.get(end.getKey())) {
        long until = curves.get(end.getKey()).lastTimeAt(candidate.horizonMillis(), end.getValue());
        last = Math.min(last, until);
      }
    }
    return last == AFTER_ALL_EVENTS ? candidate.horizonMillis() : last;
  }

  private long earliestMillis() {
    return ranges.entrySet().stream()
        .mapToLong(entry -> curves.get(entry.getKey()).timeAt(entry.getValue().start()))
        .min()
        .orElse(0);
  }

  private void askTimeIndex(long millis) {
    Set<TopicPartition> unknown = ranges.keySet().stream()
        .filter(partition -> trust.isTrusted(partition, millis))
        .filter(partition -> !curves.get(partition).intervalAt(millis).isPoint())
        .collect(Collectors.toSet());
    if (unknown.isEmpty()) {
      return;
    }
    Map<TopicPartition, ListOffsetsResultInfo> answers = logs.firstAtOrAfter(unknown, millis);
    Map<TopicPartition, ListOffsetsResultInfo> doubtful = new HashMap<>();
    for (TopicPartition partition : unknown) {
      OffsetRange range = ranges.get(partition);
      ListOffsetsResultInfo none = new ListOffsetsResultInfo(range.end(), millis, Optional.empty());
      ListOffsetsResultInfo entry = answers.getOrDefault(partition, none);
      if (TimeIndexTrust.needsCheck(entry, range, millis, toleranceMillis)) {
        doubtful.put(partition, entry);
      } else {
        accept(partition, entry, millis);
      }
    }
    verify(doubtful, millis);
  }

  private void accept(TopicPartition partition, ListOffsetsResultInfo entry, long millis) {
    boolean inRange = entry.offset() < ranges.get(partition).end();
    long offset = inRange ? entry.offset() : ranges.get(partition).end();
    curves.get(partition).addExact(offset, millis, inRange ? Math.max(millis, entry.timestamp()) : millis);
  }

  /** Samples the records at doubtful answers. Either they are as late as the answer says, or the index hides them. */
  private void verify(Map<TopicPartition, ListOffsetsResultInfo> doubtful, long millis) {
    if (doubtful.isEmpty()) {
      return;
    }
    Map<TopicPartition, Long> offsets = new HashMap<>();
    doubtful.forEach(
        (partition, entry) -> offsets.put(partition, Math.max(entry.offset(), ranges.get(partition).start())));
    Map<TopicPartition, Sample> samples = logs.samplesAt(offsets, ranges);
    doubtful.forEach(
        (partition, entry) -> {
          Sample sample = samples.get(partition);
          if (sample == null || sample.firstMillis().isEmpty()) {
            curves.get(partition).addExact(offsets.get(partition), millis, millis);
          } else if (sample.firstMillis().getAsLong() >= millis - toleranceMillis) {
            long until = Math.max(millis, Math.min(entry.timestamp(), sample.firstMillis().getAsLong()));
            curves.get(partition).addExact(offsets.get(partition), millis, until);
          } else {
            trust.distrustUntil(partition, entry.timestamp());
            addSample(partition, sample);
          }
        });
  }

  private void sample(Map<TopicPartition, Long> offsets) {
    sampled.addAll(offsets.entrySet());
    logs.samplesAt(offsets, ranges).forEach(this::addSample);
  }

  private void addSample(TopicPartition partition, Sample sample) {
    curves.get(partition).add(sample, toleranceMillis);
  }

  /** The offsets at which another sample makes the candidate more precise, for partitions without a trusted index. */
  private Map<TopicPartition, Long> samplesNeeded(long millis, int round) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    ranges.forEach(
        (partition, range) -> {
          EventTimeCurve.Interval interval = curves.get(partition).intervalAt(millis);
          if (!trust.isTrusted(partition, millis) && isWide(interval, range.start(), caps.get(partition))) {
            offsets.put(partition, offsetIn(interval, partition, millis, round));
          }
        });
    offsets.entrySet().removeIf(sampled::contains);
    return offsets;
  }

  private boolean isWide(EventTimeCurve.Interval interval, long start, long cap) {
    return !interval.isPoint()
        && interval.high(cap) - interval.low(start) >= 2
        && !interval.isShorterThanMillis(toleranceMillis);
  }

  private long offsetIn(EventTimeCurve.Interval interval, TopicPartition partition, long millis, int round) {
    long start = ranges.get(partition).start();
    long cap = caps.get(partition);
    if (interval.above() == null) {
      return ranges.get(partition).lastSampleOffset(cap);
    }
    long low = interval.low(start);
    long high = interval.high(cap);
    if (high - low <= OffsetRange.SHORT_ROWS) {
      return low;
    }
    long likely = curves.get(partition).offsetAt(millis, start, cap);
    return round % 2 == 0 && likely > low && likely < high ? likely : low + (high - low) / 2;
  }
}
