package io.penstock.kafka.source.horizon;

/** Computes the candidate batch for a given horizon. */
public interface CandidateEvaluator {
  /** Later than any event, and far enough from the largest long to calculate with. */
  long AFTER_ALL_EVENTS = Long.MAX_VALUE / 4;

  /** The candidate at this horizon, by what is known now. Looks nothing up. */
  BatchCandidate estimate(long horizonMillis);

  /** The candidate at this horizon after look-ups in the logs. */
  BatchCandidate measure(long horizonMillis);

  /** The candidate that reads nothing. */
  BatchCandidate empty();

  /** The candidate at {@link #AFTER_ALL_EVENTS}: the end of each partition is bounded by the budget for it alone. */
  BatchCandidate full();

  /** The latest horizon that surely gives the same ends as {@code candidate}. */
  long lastEqualHorizon(BatchCandidate candidate);
}
