package io.penstock.spark42;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The order to a query to take no more rows: at once, or, to level it with others, once it has read its inputs up to
 * certain offsets, its <em>cuts</em>. Until these are found it takes no rows. Pure.
 *
 * @param levelMillis the watermark to come to; 0 or empty: no more rows from now on
 * @param cuts where the query ends to read, once that is known: a text that its sources understand
 * @param intervalNanos the time between two triggers of the query
 * @param sinceNanos when the order came, by {@code System.nanoTime()}
 * @param stops the query is about to be stopped: it reads no more, wherever it is
 */
public record QuiesceOrder(
    OptionalLong levelMillis, Optional<String> cuts, long intervalNanos, long sinceNanos, boolean stops) {
  /** A query that had read all rows within this time before the order has little left. */
  static final long FRESH_NANOS = Duration.ofSeconds(10).toNanos();

  /** What came in for longer is more than the phase after the stop has time for. */
  static final long LONGEST_FRESH_NANOS = Duration.ofSeconds(20).toNanos();

  public static QuiesceOrder at(OptionalLong levelMillis, long intervalNanos, long nowNanos) {
    return new QuiesceOrder(levelMillis, Optional.empty(), intervalNanos, nowNanos, false);
  }

  /** The same order to a query that is about to be stopped. */
  QuiesceOrder forStop() {
    return new QuiesceOrder(levelMillis, cuts, intervalNanos, sinceNanos, true);
  }

  /** The same order, now that the cuts are known. */
  QuiesceOrder withCuts(String found) {
    return new QuiesceOrder(levelMillis, Optional.of(found), intervalNanos, sinceNanos, stops);
  }

  boolean levels() {
    return levelMillis.orElse(0) > 0;
  }

  /** Where the query may read to; empty: it takes no rows at all. */
  public Optional<String> readsTo() {
    return levels() && !stops ? cuts : Optional.empty();
  }

  /**
   * Whether a query gets no more rows under this order. Once true it stays so: cuts are found once, and an input does
   * not forget that it has read to them. {@code inputs}: those that know how far they have read.
   */
  boolean isReached(List<ReadState> inputs) {
    return stops || !levels()
        || cuts.isPresent() && inputs.stream().allMatch(input -> input.hasReadTo(cuts.get()));
  }

  /**
   * Whether the query has read all rows that were there about when the order came. With a level: some batch planned
   * since took all. Without: the newest batch took all, not long before the order. The query could not look more often
   * than its interval and its batches allow.
   */
  boolean isCaughtUp(List<ReadState> inputs, long lastBatchNanos) {
    long fresh = Math.max(FRESH_NANOS, Math.min(LONGEST_FRESH_NANOS, intervalNanos + lastBatchNanos));
    return levels()
        ? inputs.stream().allMatch(input -> input.hasTakenAllSince(sinceNanos))
        : inputs.stream().allMatch(input -> !input.leftRows() && input.hasTakenAllSince(sinceNanos - fresh));
  }
}
