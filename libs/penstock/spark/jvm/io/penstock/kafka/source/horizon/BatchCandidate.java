package io.penstock.kafka.source.horizon;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * A possible batch: all partitions are read up to one event time.
 *
 * @param horizonMillis that event time
 * @param ends the ends of the batch by partition
 * @param load the share of the budget that the batch uses; above 1 the batch is too large
 */
public record BatchCandidate(long horizonMillis, Map<TopicPartition, Long> ends, double load) {
  /**
   * A full batch between this one, which fits the budget, and {@code high}, which does not. Each partition advances by
   * the same share of its rows, and fractions of rows are carried to the next partition. At least one row is read; only
   * that row can exceed the budget.
   */
  public BatchCandidate fullUpTo(BatchCandidate high) {
    double share = high.load > load ? Math.max(0, Math.min(1, (1 - load) / (high.load - load))) : 1;
    Map<TopicPartition, Long> shared = new LinkedHashMap<>();
    TopicPartition largest = null;
    long mostRows = 0;
    double carried = 0;
    for (Map.Entry<TopicPartition, Long> entry : ends.entrySet()) {
      long rows = high.ends.get(entry.getKey()) - entry.getValue();
      double due = rows * share + carried;
      long taken = Math.min(rows, (long) due);
      carried = due - taken;
      shared.put(entry.getKey(), entry.getValue() + taken);
      if (rows > mostRows) {
        mostRows = rows;
        largest = entry.getKey();
      }
    }
    if (shared.equals(ends) && largest != null) {
      shared.merge(largest, 1L, Long::sum);
    }
    return new BatchCandidate(horizonMillis, shared, 1);
  }
}
