package io.penstock.kafka.source.limits;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.OptionalDouble;

/**
 * What the last batches say of the cost of a row and of the time that a batch takes without rows.
 *
 * <p>A row costs no more than in the batch with the most rows a second. What a batch of few rows took beyond that is
 * not due to its rows. Both are bounds, so they hold however much the time without rows changes from batch to batch.
 */
final class BatchCost {
  /** A batch with at most this share of the rows of the largest one has few rows. */
  static final double FEW = 0.25;

  private static final int REMEMBERED = 6;
  private static final double FOREIGN = 2;

  private record Batch(double rows, double millis) {
    double rowMillis() {
      return Math.max(1, millis) / rows;
    }
  }

  private final Deque<Batch> last = new ArrayDeque<>();

  /** A batch of many rows that took far longer than the others allow begins anew: rows may cost more than before. */
  void add(double rows, double millis) {
    boolean isFew = last.isEmpty() || rows <= FEW * mostRows();
    if (!isFew && millis > FOREIGN * (fixedMillis().orElse(0) + rows * rowMillis())) {
      last.clear();
    }
    last.addLast(new Batch(rows, millis));
    if (last.size() > REMEMBERED) {
      last.removeFirst();
    }
  }

  /** The most that a row costs; infinite while no batch had rows. */
  double rowMillis() {
    return last.stream().filter(batch -> batch.rows > 0).mapToDouble(Batch::rowMillis).min()
        .orElse(Double.POSITIVE_INFINITY);
  }

  /** The time without rows that the batches of few rows show. Empty while all batches had about as many rows. */
  OptionalDouble fixedMillis() {
    double rowMillis = rowMillis();
    double few = FEW * mostRows();
    double shortest = last.stream().mapToDouble(Batch::millis).min().orElse(0);
    OptionalDouble most = last.stream().filter(batch -> batch.rows <= few)
        .mapToDouble(batch -> batch.rows == 0 ? batch.millis : batch.millis - batch.rows * rowMillis).max();
    return most.isEmpty() ? most : OptionalDouble.of(Math.min(most.getAsDouble(), shortest));
  }

  double mostRows() {
    return last.stream().mapToDouble(Batch::rows).max().orElse(0);
  }
}
