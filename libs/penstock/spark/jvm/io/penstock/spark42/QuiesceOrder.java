package io.penstock.spark42;

import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;

/**
 * The order to a query to take no more rows: at once, or, to level it with others, once it has come to a watermark or
 * has read all that is there. Pure.
 *
 * @param levelMillis the watermark to come to, which is a limit of the query's watermark while the order stands; empty:
 *     no more rows from now on
 * @param sinceNanos when the order came, by {@code System.nanoTime()}
 * @param stops the query is about to be stopped: it reads no more, wherever it is
 */
public record QuiesceOrder(OptionalLong levelMillis, long sinceNanos, boolean stops) {
  /** A query that read all there was so shortly before the order has little left that came in since. */
  static final long FRESH_NANOS = Duration.ofSeconds(10).toNanos();

  public static QuiesceOrder at(OptionalLong levelMillis, long nowNanos) {
    return new QuiesceOrder(levelMillis, nowNanos, false);
  }

  /** The same order to a query that is about to be stopped. Its watermark stays limited. */
  QuiesceOrder forStop() {
    return new QuiesceOrder(levelMillis, sinceNanos, true);
  }

  /** Whether a query at this watermark gets no more rows. Once true it stays so. {@code inputs}: all that it has. */
  boolean isReached(long watermarkMillis, List<ReadState> inputs) {
    return stops || levelMillis.isEmpty() || watermarkMillis >= levelMillis.getAsLong()
        || inputs.stream().allMatch(input -> input.hasTakenAllSince(sinceNanos));
  }

  /** Whether the query has nothing left to read but what came in since about the time of the order. */
  boolean isCaughtUp(List<ReadState> inputs) {
    return levelMillis.isPresent()
        ? inputs.stream().allMatch(input -> input.hasTakenAllSince(sinceNanos))
        : inputs.stream().allMatch(input -> !input.leftRows() && input.hasTakenAllSince(sinceNanos - FRESH_NANOS));
  }

  /** The latest watermark that the query may have. */
  long watermarkBound() {
    return levelMillis.orElse(Long.MAX_VALUE);
  }
}
