package io.penstock.kafka.source;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Chooses the ends of a batch. What it remembers from batch to batch (curves, trust, sizes) only saves looks: a
 * planner that starts anew chooses as well.
 */
final class BatchPlanner {
  private static final Logger LOG = LoggerFactory.getLogger(BatchPlanner.class);
  private static final double SLACK = 0.03;

  private final Balance balance;
  private final long toleranceMillis;
  private final PartitionLogs logs;
  private final RecordSizes sizes;
  private final Map<TopicPartition, Curve> curves = new HashMap<>();
  private final TrustInIndex trust = new TrustInIndex();
  private boolean warned;
  private Plan last = Plan.WITHOUT_HORIZON;

  BatchPlanner(Balance balance, long toleranceMillis, PartitionLogs logs, RecordSizes sizes) {
    this.balance = balance;
    this.toleranceMillis = toleranceMillis;
    this.logs = logs;
    this.sizes = sizes;
  }

  /** How far the last batch goes. */
  Plan last() {
    return last;
  }

  /** The ends of the next batch between {@code starts} and {@code ends}; all of it where it fits into the limits. */
  Map<TopicPartition, Long> plan(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, ReadLimits limits, Company company) {
    Map<TopicPartition, Range> ranges = Range.between(starts, ends);
    if (ranges.isEmpty() || limits.isUnlimited()) {
      return allOf(ends);
    }
    Budget budget = budgetOf(limits, ranges);
    if (budget.loadOf(ranges, ends) <= 1) {
      return allOf(ends);
    }
    Map<TopicPartition, Long> chosen = new LinkedHashMap<>(ends);
    chosen.putAll(choose(ranges, budget, company));
    return chosen;
  }

  private Budget budgetOf(ReadLimits limits, Map<TopicPartition, Range> ranges) {
    Map<TopicPartition, Double> meanBytes = limits.maxBytes().isEmpty() ? Map.of() : sizes.of(ranges);
    return new Budget(limits.maxRows(), limits.maxBytes(), meanBytes);
  }

  private Map<TopicPartition, Long> allOf(Map<TopicPartition, Long> ends) {
    curves.clear();
    last = Plan.WITHOUT_HORIZON;
    return ends;
  }

  private Map<TopicPartition, Long> choose(Map<TopicPartition, Range> ranges, Budget budget, Company company) {
    if (budget.maxBytes().isPresent()) {
      sizes.refresh(ranges);
    }
    if (balance == Balance.OFF || (ranges.size() == 1 && !company.others())) {
      last = Plan.WITHOUT_HORIZON;
      return inProportion(ranges, ranges, budget);
    }
    judge(ranges.keySet());
    Set<TopicPartition> exhausted = look(ranges, budget);
    Map<TopicPartition, Range> dated = new LinkedHashMap<>(ranges);
    dated.keySet().removeIf(partition -> curveOf(partition).isEmpty());
    Map<TopicPartition, Range> undated = new LinkedHashMap<>(ranges);
    undated.keySet().removeAll(dated.keySet());
    undated.keySet().removeAll(exhausted);
    warnOnce(undated.keySet());
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    exhausted.forEach(partition -> ends.put(partition, ranges.get(partition).end()));
    ends.putAll(inProportion(undated, ranges, budget));
    ends.putAll(search(dated, budget.without(undated, ends), company.latestMillis()));
    return ends;
  }

  private Map<TopicPartition, Long> search(Map<TopicPartition, Range> dated, Budget budget, long latestMillis) {
    Cuts cuts = new EventTimeCuts(dated, curves, budget, logs, trust, toleranceMillis);
    if (dated.isEmpty() || cuts.everything().load() <= 1) {
      last = Plan.WITHOUT_HORIZON;
      return cuts.everything().ends();
    }
    Cut cut = new HorizonSearch(cuts, SLACK).find();
    if (cut.millis() > latestMillis) {
      cut = cuts.measure(latestMillis);
    }
    last = last.then(cut.millis());
    return cut.ends();
  }

  private void warnOnce(Set<TopicPartition> undated) {
    if (!undated.isEmpty() && !warned) {
      warned = true;
      LOG.warn("records have no event time, so these partitions are not balanced: {}", undated);
    }
  }

  private Curve curveOf(TopicPartition partition) {
    return curves.computeIfAbsent(partition, fresh -> new Curve());
  }

  /** Finds out, once for each partition, whether the time index can be asked. */
  private void judge(Set<TopicPartition> partitions) {
    Set<TopicPartition> fresh = trust.notJudged(partitions);
    if (fresh.isEmpty()) {
      return;
    }
    switch (balance) {
      case INDEX -> trust.judge(fresh, true);
      case AUTO -> {
        trust.judge(logs.writtenByTransactions(fresh), false);
        trust.judge(trust.notJudged(fresh), true);
      }
      default -> trust.judge(fresh, false);
    }
  }

  /**
   * Looks where each partition begins and how far the budget could carry it, where nothing is known of it yet.
   * Returns the partitions that turn out to have no record left, only markers of transactions.
   */
  private Set<TopicPartition> look(Map<TopicPartition, Range> ranges, Budget budget) {
    Map<TopicPartition, Long> first = new LinkedHashMap<>();
    Map<TopicPartition, Long> last = new LinkedHashMap<>();
    ranges.forEach(
        (partition, range) -> {
          curveOf(partition).forgetBefore(range.start());
          if (curveOf(partition).isEmpty()) {
            first.put(partition, range.start());
            last.put(partition, EventTimeCuts.lastPlace(range, budget.capOf(partition, range)));
          }
        });
    Set<TopicPartition> exhausted = new HashSet<>(first.keySet());
    exhausted.removeAll(note(first, ranges));
    last.keySet().removeAll(exhausted);
    note(last, ranges);
    return exhausted;
  }

  private Set<TopicPartition> note(Map<TopicPartition, Long> offsets, Map<TopicPartition, Range> ranges) {
    if (offsets.isEmpty()) {
      return Set.of();
    }
    Map<TopicPartition, Run> runs = logs.runsAt(offsets, ranges);
    runs.forEach((partition, run) -> curveOf(partition).add(run, toleranceMillis));
    return runs.keySet();
  }

  /** Ends of some partitions, if all were read in proportion to what is left of them. */
  private static Map<TopicPartition, Long> inProportion(
      Map<TopicPartition, Range> some, Map<TopicPartition, Range> all, Budget budget) {
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    all.forEach((partition, range) -> ends.put(partition, range.end()));
    double load = budget.loadOf(all, ends);
    ends.keySet().retainAll(some.keySet());
    some.forEach((partition, range) -> starts.put(partition, range.start()));
    return Shares.between(new Cut(0, starts, 0), new Cut(0, ends, load)).ends();
  }
}
