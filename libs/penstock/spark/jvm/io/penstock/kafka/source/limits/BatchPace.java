package io.penstock.kafka.source.limits;

import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * How many rows, or files, a source gives to a batch, so that batches take about as long as they should. Learns from each finished
 * batch. Pure: rows and milliseconds go in, a limit of rows comes out.
 *
 * <p>A batch costs a time without rows (planning, state, commit, a busy machine) and a time for each row, and the limit
 * changes only the latter. A batch that takes too long may be due to either. Where no batch of few rows has told which,
 * the next one has at most a quarter of the rows. If it is quick, rows are the cause, and batches of about the target
 * follow at once. If it is slow, the limit goes back up: batches may take {@code FIXED_TIMES} as long as without rows,
 * so a catch-up goes on at a good pace whatever slows the batches down.
 *
 * <p>The limit slowly falls while batches are far smaller, since such batches do not show what a row costs today.
 */
public final class BatchPace {
  /** What a row may cost in the very first batch without making it longer than the target. */
  static final long FIRST_ROW_MILLIS = 50;

  private static final double AIM = 0.8;
  private static final double LEAST_GROWTH = 2;
  private static final double MOST_GROWTH = 32;
  private static final double FIXED_TIMES = 2.5;
  /** In targets: a longer batch needs a smaller one that tells why; the lower bound holds while none has told yet. */
  private static final double TOO_LONG = 1.75;
  private static final double DOUBTFUL = 0.9;
  private static final double SMALLER = 0.9;
  private static final double UNUSED_SHARE = 1.0 / 16;
  private static final double UNUSED_DECAY = 0.9;

  private final double targetMillis;
  private final BatchCost cost = new BatchCost();
  private final double firstRows;
  private final double fewRows;
  private double limit;
  private boolean isTold;

  /** {@code first}: rows of the very first batch. {@code known}: the limit that other batches of the job have come to. */
  public BatchPace(long targetMillis, long first, OptionalLong known) {
    this.targetMillis = AIM * targetMillis;
    this.firstRows = first;
    this.fewRows = firstRows(targetMillis);
    this.limit = known.orElse(first);
  }

  /** Of records in a topic. */
  public static long firstRows(long targetMillis) {
    return Math.max(1, targetMillis / FIRST_ROW_MILLIS);
  }

  /** The most rows of the next batch. */
  public long limit() {
    return Math.max(1, (long) limit);
  }

  /** What batches take without rows, as far as they have told; 0 while they have not. */
  double fixedMillis() {
    return cost.fixedMillis().orElse(0);
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
    boolean isLeast = ownRows * BatchCost.FEW < 1 && rows < fewRows;
    double factor = bestRows(rows, millis, isLeast) / rows;
    if (ownRows >= limit / 2) {
      limit = Math.max(1, ownRows * factor);
    } else if (factor < 1) {
      limit = Math.max(1, Math.max(ownRows, limit * factor));
    } else if (ownRows < limit * UNUSED_SHARE) {
      limit = Math.max(Math.min(limit, firstRows), limit * UNUSED_DECAY);
    }
  }

  private double bestRows(double rows, double millis, boolean isLeast) {
    OptionalDouble fixed = cost.fixedMillis();
    boolean isDoubtful = !isTold || rows < SMALLER * cost.mostRows();
    isTold |= fixed.isPresent();
    if (fixed.isEmpty() && millis > (isDoubtful ? DOUBTFUL : TOO_LONG) * targetMillis) {
      return rowsThatTell(rows, isLeast);
    }
    double allowed = Math.max(targetMillis, FIXED_TIMES * fixed.orElse(0));
    double growth = Math.min(MOST_GROWTH, Math.max(LEAST_GROWTH, targetMillis / Math.max(1, millis)));
    return Math.min(Math.max(rows, cost.mostRows()) * growth, allowed / cost.rowMillis());
  }

  /** So few rows, or so many more, that the next batch tells whether the rows are why batches take too long. */
  private double rowsThatTell(double rows, boolean isLeast) {
    return isLeast ? rows / BatchCost.FEW : Math.min(rows * BatchCost.FEW, targetMillis / cost.rowMillis());
  }
}
