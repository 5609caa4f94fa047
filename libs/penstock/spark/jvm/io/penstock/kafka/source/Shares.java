package io.penstock.kafka.source;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Shares a batch between partitions in proportion to what they have. */
final class Shares {
  private Shares() {}

  /**
   * A cut between one that leaves room and one that is too much: each partition goes the same share of the way.
   * Fractions of rows are handed on to the next partition, so that the batch is as full as it can be; at least one
   * row is read, which is all by which it can be above its budget.
   */
  static Cut between(Cut low, Cut high) {
    double share = share(low.load(), high.load());
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    TopicPartition largest = null;
    long mostRows = 0;
    double handedOn = 0;
    for (Map.Entry<TopicPartition, Long> entry : low.ends().entrySet()) {
      long rows = high.ends().get(entry.getKey()) - entry.getValue();
      double due = rows * share + handedOn;
      long taken = Math.min(rows, (long) due);
      handedOn = due - taken;
      ends.put(entry.getKey(), entry.getValue() + taken);
      if (rows > mostRows) {
        mostRows = rows;
        largest = entry.getKey();
      }
    }
    if (ends.equals(low.ends()) && largest != null) {
      ends.merge(largest, 1L, Long::sum);
    }
    return new Cut(low.millis(), ends, 1);
  }

  private static double share(double low, double high) {
    return high > low ? Math.max(0, Math.min(1, (1 - low) / (high - low))) : 1;
  }
}
