package io.penstock.kafka.source.limits;

/**
 * How many rows a source gives to a batch, so that batches take about as long as they should. Learns from each finished
 * batch. Pure: rows and milliseconds go in, a limit of rows comes out.
 *
 * <p>A batch is taken to cost a fixed time (planning, state, commit) and a time for each row. Both are fitted to the
 * last batches, the newer the heavier. Only the time of the rows can be changed by the limit, so a batch whose fixed
 * time alone exceeds the target keeps half of the target for rows. The limit grows by little where it is near the
 * target and by much where it is far; it shrinks at once. It slowly falls while batches are far smaller, since such
 * batches do not show what a row costs today.
 */
public final class BatchPace {
  /** The limit of the very first batch: 20 s at 10 ms a row. */
  static final long FIRST_ROWS = 2_000;

  private static final double AIM = 0.8;
  private static final double LEAST_GROWTH = 2;
  private static final double MOST_GROWTH = 16;
  private static final double UNUSED_SHARE = 1.0 / 16;
  private static final double UNUSED_DECAY = 0.9;

  private final double targetMillis;
  private final BatchCost cost = new BatchCost();
  private double limit = FIRST_ROWS;

  public BatchPace(long targetMillis) {
    this.targetMillis = AIM * targetMillis;
  }

  /** The most rows of the next batch. */
  public long limit() {
    return Math.max(1, (long) limit);
  }

  /**
   * A batch has ended.
   *
   * @param ownRows rows that this source gave to it
   * @param allRows rows of all sources of the query
   */
  public void finished(long ownRows, long allRows, long millis) {
    double rows = Math.max(allRows, ownRows);
    cost.add(rows, millis);
    if (rows == 0) {
      return;
    }
    double factor = factor(millis);
    if (ownRows >= limit / 2) {
      limit = Math.max(1, ownRows * factor);
    } else if (factor < 1) {
      limit = Math.max(1, Math.max(ownRows, limit * factor));
    } else if (ownRows < limit * UNUSED_SHARE) {
      limit = Math.max(Math.min(limit, FIRST_ROWS), limit * UNUSED_DECAY);
    }
  }

  private double factor(double millis) {
    double fixed = cost.fixedMillis();
    double forRows = Math.max(targetMillis - fixed, targetMillis / 2);
    double growth = Math.min(MOST_GROWTH, Math.max(LEAST_GROWTH, targetMillis / millis));
    return Math.min(growth, forRows / Math.max(1, millis - fixed));
  }
}
