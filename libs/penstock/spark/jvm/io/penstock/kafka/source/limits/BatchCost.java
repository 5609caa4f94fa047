package io.penstock.kafka.source.limits;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The part of a batch's time that does not depend on its rows: the intercept of a line through the last batches, of
 * which the newer weigh more. It is never more than the shortest of the last few batches took. A batch that takes less
 * than half or more than twice as long as the line says begins another line: rows or queries cost something else now.
 */
final class BatchCost {
  private static final double MEMORY = 0.8;
  private static final int REMEMBERED = 8;
  private static final double LEAST_SPREAD = 0.2;
  private static final double FOREIGN = 2;

  private final Deque<Double> lastMillis = new ArrayDeque<>();
  private double weight;
  private double sumRows;
  private double sumMillis;
  private double sumRowsRows;
  private double sumRowsMillis;
  private double fixed;
  private double perRow;
  private boolean isFitted;

  void add(double rows, double millis) {
    if (isForeign(rows, millis)) {
      forget();
    }
    weight = MEMORY * weight + 1;
    sumRows = MEMORY * sumRows + rows;
    sumMillis = MEMORY * sumMillis + millis;
    sumRowsRows = MEMORY * sumRowsRows + rows * rows;
    sumRowsMillis = MEMORY * sumRowsMillis + rows * millis;
    lastMillis.addLast(millis);
    if (lastMillis.size() > REMEMBERED) {
      lastMillis.removeFirst();
    }
    fit();
  }

  /** 0 until batches of different sizes were seen. */
  double fixedMillis() {
    return fixed;
  }

  private boolean isForeign(double rows, double millis) {
    double told = fixed + perRow * rows;
    boolean isLike = Math.abs(rows - sumRows / weight) <= LEAST_SPREAD * rows;
    return weight > 0 && (isFitted || isLike) && (millis > FOREIGN * told || millis < told / FOREIGN);
  }

  private void forget() {
    weight = 0;
    sumRows = 0;
    sumMillis = 0;
    sumRowsRows = 0;
    sumRowsMillis = 0;
    fixed = 0;
    isFitted = false;
    lastMillis.clear();
  }

  /** Batches of about the same size say nothing new of the fixed time: then what was known before counts. */
  private void fit() {
    double meanRows = sumRows / weight;
    double meanMillis = sumMillis / weight;
    double variance = sumRowsRows / weight - meanRows * meanRows;
    if (variance > Math.pow(LEAST_SPREAD * meanRows, 2)) {
      double slope = Math.max(0, (sumRowsMillis / weight - meanRows * meanMillis) / variance);
      fixed = Math.max(0, meanMillis - slope * meanRows);
      isFitted = true;
    }
    fixed = Math.min(fixed, lastMillis.stream().mapToDouble(Double::doubleValue).min().orElse(0));
    perRow = meanRows > 0 ? (meanMillis - fixed) / meanRows : 0;
  }
}
