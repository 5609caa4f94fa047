package io.penstock.kafka.source.horizon;

/**
 * Finds the latest horizon at which everything up to it fits into one batch. Each round estimates a horizon, measures
 * it, and narrows the interval. Every third round halves the interval, and after {@code MAX_ROUNDS} every round does,
 * so the search ends for all curves.
 */
public final class HorizonSearch {
  private static final int PATIENT_ROUNDS = 3;
  private static final int MAX_ROUNDS = 12;
  private static final long FIRST_STRIDE_MILLIS = 1000;

  private final EventTimeEvaluator candidates;
  private final double slack;
  private int rounds;

  /** A batch may use up to the share {@code slack} less than its budget, which saves rounds. */
  public HorizonSearch(EventTimeEvaluator candidates, double slack) {
    this.candidates = candidates;
    this.slack = slack;
  }

  /** A candidate that reads rows and fits. The full candidate must not fit. */
  public BatchCandidate find() {
    BatchCandidate low = candidates.empty;
    BatchCandidate high = candidates.full;
    for (rounds = 0; isOpen(low, high) && !isEnough(low); rounds++) {
      BatchCandidate measured = candidates.measure(nextHorizon(low, high));
      if (measured.load() > 1) {
        high = measured;
      } else {
        low = measured;
      }
    }
    return hasRows(low) ? low : low.fullUpTo(high);
  }

  /** The longer the search lasts, the smaller a batch is accepted. */
  private boolean isEnough(BatchCandidate candidate) {
    double least = (1 - slack) * Math.max(0, MAX_ROUNDS - rounds) / Math.max(1, MAX_ROUNDS - PATIENT_ROUNDS);
    return hasRows(candidate) && candidate.load() >= Math.min(1 - slack, least);
  }

  private boolean isOpen(BatchCandidate low, BatchCandidate high) {
    return low.load() < 1 && high.horizonMillis() - 1 > candidates.lastEqualHorizon(low);
  }

  private boolean hasRows(BatchCandidate candidate) {
    return !candidate.ends().equals(candidates.empty.ends());
  }

  private long nextHorizon(BatchCandidate low, BatchCandidate high) {
    long from = Math.max(low.horizonMillis(), candidates.lastEqualHorizon(low)) + 1;
    long until = high.horizonMillis() - 1;
    boolean bounded = high.horizonMillis() < EventTimeEvaluator.AFTER_ALL_EVENTS;
    if (bounded && (rounds % 3 == 2 || rounds > MAX_ROUNDS)) {
      return from + (until - from) / 2;
    }
    return Math.min(until, estimatedHorizon(from, until));
  }

  /**
   * The latest horizon at which the estimated batch is not quite full. If no estimate is full and no horizon was too
   * late yet: a stride that grows each round.
   */
  private long estimatedHorizon(long from, long until) {
    double target = 1 - slack / 2;
    long step = 1;
    while (step < until - from && candidates.estimate(from + step).load() < target) {
      step *= 2;
    }
    if (step >= until - from && until == EventTimeEvaluator.AFTER_ALL_EVENTS - 1) {
      return from + (FIRST_STRIDE_MILLIS << Math.min(50, 2 * rounds));
    }
    return lastBelow(target, from, Math.min(until, from + step));
  }

  private long lastBelow(double target, long from, long until) {
    long low = from;
    long high = until;
    while (high - low > 1) {
      long middle = low + (high - low) / 2;
      if (candidates.estimate(middle).load() < target) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
