package io.penstock.kafka.source.plan;

import io.penstock.kafka.source.broker.OffsetRange;
import io.penstock.kafka.source.broker.PartitionLogs;
import io.penstock.kafka.source.broker.Sample;
import io.penstock.kafka.source.horizon.BatchCandidate;
import io.penstock.kafka.source.horizon.EventTimeCurve;
import io.penstock.kafka.source.horizon.EventTimeEvaluator;
import io.penstock.kafka.source.horizon.HorizonSearch;
import io.penstock.kafka.source.horizon.TimeIndexTrust;
import io.penstock.kafka.source.limits.BatchBudget;
import io.penstock.kafka.source.limits.MeanRecordSizes;
import io.penstock.kafka.source.limits.ReadLimits;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Chooses the ends of a batch. The planner keeps curves, trust and record sizes from batch to batch only to save
 * look-ups: after a restart it chooses as well.
 */
public final class BatchPlanner {
  private static final Logger LOG = LoggerFactory.getLogger(BatchPlanner.class);
  private static final double SLACK = 0.03;

  private final BalanceMode mode;
  private final long toleranceMillis;
  private final PartitionLogs logs;
  private final MeanRecordSizes sizes;
  private final Map<TopicPartition, EventTimeCurve> curves = new HashMap<>();
  private final TimeIndexTrust trust = new TimeIndexTrust();
  private boolean warned;
  private BatchHorizon lastHorizon = BatchHorizon.NONE;

  public BatchPlanner(BalanceMode mode, long toleranceMillis, PartitionLogs logs) {
    this.mode = mode;
    this.toleranceMillis = toleranceMillis;
    this.logs = logs;
    this.sizes = new MeanRecordSizes(logs);
  }

  public BatchHorizon lastHorizon() {
    return lastHorizon;
  }

  /** The ends of the next batch: {@code ends} if everything fits into the limits, else earlier ends. */
  public Map<TopicPartition, Long> plan(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, ReadLimits limits, OtherSources others) {
    Map<TopicPartition, OffsetRange> ranges = OffsetRange.between(starts, ends);
    if (ranges.isEmpty() || limits.isUnlimited()) {
      return allOf(ends);
    }
    BatchBudget budget = budgetOf(limits, ranges);
    if (budget.loadOf(ranges, ends) <= 1) {
      return allOf(ends);
    }
    Map<TopicPartition, Long> chosen = new LinkedHashMap<>(ends);
    chosen.putAll(choose(ranges, budget, others));
    return chosen;
  }

  private BatchBudget budgetOf(ReadLimits limits, Map<TopicPartition, OffsetRange> ranges) {
    Map<TopicPartition, Double> meanBytes = limits.maxBytes().isEmpty() ? Map.of() : sizes.of(ranges);
    return new BatchBudget(limits.maxRows(), limits.maxBytes(), meanBytes);
  }

  private Map<TopicPartition, Long> allOf(Map<TopicPartition, Long> ends) {
    curves.clear();
    lastHorizon = BatchHorizon.NONE;
    return ends;
  }

  private Map<TopicPartition, Long> choose(
      Map<TopicPartition, OffsetRange> ranges, BatchBudget budget, OtherSources others) {
    if (budget.maxBytes().isPresent()) {
      sizes.refresh(ranges);
    }
    if (mode == BalanceMode.OFF || (ranges.size() == 1 && !others.exist())) {
      lastHorizon = BatchHorizon.NONE;
      return inProportion(ranges, ranges, budget);
    }
    decideTrust(ranges.keySet());
    Set<TopicPartition> exhausted = sampleNewPartitions(ranges, budget);
    Map<TopicPartition, OffsetRange> timed = new LinkedHashMap<>(ranges);
    timed.keySet().removeIf(partition -> curveOf(partition).isEmpty());
    Map<TopicPartition, OffsetRange> untimed = new LinkedHashMap<>(ranges);
    untimed.keySet().removeAll(timed.keySet());
    untimed.keySet().removeAll(exhausted);
    warnOnce(untimed.keySet());
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    exhausted.forEach(partition -> ends.put(partition, ranges.get(partition).end()));
    ends.putAll(inProportion(untimed, ranges, budget));
    ends.putAll(search(timed, budget.without(untimed, ends), others.maxHorizonMillis()));
    return ends;
  }

  private Map<TopicPartition, Long> search(
      Map<TopicPartition, OffsetRange> timed, BatchBudget budget, long maxHorizonMillis) {
    EventTimeEvaluator candidates = new EventTimeEvaluator(timed, curves, budget, logs, trust, toleranceMillis);
    if (timed.isEmpty() || candidates.full.load() <= 1) {
      lastHorizon = BatchHorizon.NONE;
      return candidates.full.ends();
    }
    BatchCandidate chosen = new HorizonSearch(candidates, SLACK).find();
    if (chosen.horizonMillis() > maxHorizonMillis) {
      chosen = candidates.measure(maxHorizonMillis);
    }
    lastHorizon = lastHorizon.next(chosen.horizonMillis());
    return chosen.ends();
  }

  private void warnOnce(Set<TopicPartition> untimed) {
    if (!untimed.isEmpty() && !warned) {
      warned = true;
      LOG.warn("these partitions are not balanced, since their records have no event time: {}", untimed);
    }
  }

  private EventTimeCurve curveOf(TopicPartition partition) {
    return curves.computeIfAbsent(partition, fresh -> new EventTimeCurve());
  }

  /** Decides once for each partition whether its time index is trusted. */
  private void decideTrust(Set<TopicPartition> partitions) {
    Set<TopicPartition> undecided = trust.undecided(partitions);
    if (undecided.isEmpty()) {
      return;
    }
    Set<TopicPartition> distrusted = switch (mode) {
      case INDEX -> Set.of();
      case AUTO -> logs.writtenByTransactions(undecided);
      default -> undecided;
    };
    undecided.forEach(partition -> trust.decide(partition, !distrusted.contains(partition)));
  }

  /**
   * Samples each partition that has no curve yet, at its start and at the end that the budget would allow. Returns the
   * partitions that have no record left, only transaction markers.
   */
  private Set<TopicPartition> sampleNewPartitions(Map<TopicPartition, OffsetRange> ranges, BatchBudget budget) {
    Map<TopicPartition, Long> first = new LinkedHashMap<>();
    Map<TopicPartition, Long> last = new LinkedHashMap<>();
    ranges.forEach(
        (partition, range) -> {
          curveOf(partition).forgetBefore(range.start());
          if (curveOf(partition).isEmpty()) {
            first.put(partition, range.start());
            last.put(partition, range.lastSampleOffset(budget.capOf(partition, range)));
          }
        });
    Set<TopicPartition> exhausted = new HashSet<>(first.keySet());
    exhausted.removeAll(addSamples(first, ranges));
    last.keySet().removeAll(exhausted);
    addSamples(last, ranges);
    return exhausted;
  }

  private Set<TopicPartition> addSamples(Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges) {
    if (offsets.isEmpty()) {
      return Set.of();
    }
    Map<TopicPartition, Sample> samples = logs.samplesAt(offsets, ranges);
    samples.forEach((partition, sample) -> curveOf(partition).add(sample, toleranceMillis));
    return samples.keySet();
  }

  /** The ends of some partitions when all partitions are read in proportion to their backlogs. */
  private static Map<TopicPartition, Long> inProportion(
      Map<TopicPartition, OffsetRange> some, Map<TopicPartition, OffsetRange> all, BatchBudget budget) {
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    all.forEach((partition, range) -> ends.put(partition, range.end()));
    double load = budget.loadOf(all, ends);
    ends.keySet().retainAll(some.keySet());
    BatchCandidate nothing = new BatchCandidate(0, OffsetRange.starts(some), 0);
    return nothing.fullUpTo(new BatchCandidate(0, ends, load)).ends();
  }
}
