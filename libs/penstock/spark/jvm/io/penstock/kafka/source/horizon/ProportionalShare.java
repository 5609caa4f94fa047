package io.penstock.kafka.source.horizon;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Divides a batch between partitions in proportion to the rows that each of them has. */
public final class ProportionalShare {
  private ProportionalShare() {}

  /**
   * A full batch between {@code low}, which fits the budget, and {@code high}, which does not. Each partition advances
   * by the same share of its rows, and fractions of rows are carried to the next partition. At least one row is read;
   * only that row can exceed the budget.
   */
  public static BatchCandidate between(BatchCandidate low, BatchCandidate high) {
    double share = share(low.load(), high.load());
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    TopicPartition largest = null;
    long mostRows = 0;
    double carried = 0;
    for (Map.Entry<TopicPartition, Long> entry : low.ends().entrySet()) {
      long rows = high.ends().get(entry.getKey()) - entry.getValue();
      double due = rows * share + carried;
      long taken = Math.min(rows, (long) due);
      carried = due - taken;
      ends.put(entry.getKey(), entry.getValue() + taken);
      if (rows > mostRows) {
        mostRows = rows;
        largest = entry.getKey();
      }
    }
    if (ends.equals(low.ends()) && largest != null) {
      ends.merge(largest, 1L, Long::sum);
    }
    return new BatchCandidate(low.horizonMillis(), ends, 1);
  }

  private static double share(double low, double high) {
    return high > low ? Math.max(0, Math.min(1, (1 - low) / (high - low))) : 1;
  }
}
