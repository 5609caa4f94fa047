package io.penstock.kafka.source;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;

/**
 * What a batch may hold: rows, bytes, or both. Bytes are rows times the mean size of the partition's records; a
 * partition whose size is unknown counts with rows only.
 */
record Budget(OptionalLong maxRows, OptionalLong maxBytes, Map<TopicPartition, Double> meanBytes) {
  /** The share of the budget that these ends use up; above 1 they are too much. */
  double loadOf(Map<TopicPartition, Range> ranges, Map<TopicPartition, Long> ends) {
    Load load = load(ranges, ends);
    return Math.max(share(load.rows, maxRows), share(load.bytes, maxBytes));
  }

  /** What is left of the budget when these partitions are read to these ends. */
  Budget without(Map<TopicPartition, Range> ranges, Map<TopicPartition, Long> ends) {
    Load load = load(ranges, ends);
    return new Budget(less(maxRows, load.rows), less(maxBytes, load.bytes), meanBytes);
  }

  /** The most that one partition may be read to, were it read alone; at least one row. */
  long capOf(TopicPartition partition, Range range) {
    double rows = maxRows.isPresent() ? maxRows.getAsLong() : Double.POSITIVE_INFINITY;
    double size = meanBytes.getOrDefault(partition, 0.0);
    if (maxBytes.isPresent() && size > 0) {
      rows = Math.min(rows, maxBytes.getAsLong() / size);
    }
    return rows >= range.rows() ? range.end() : range.start() + Math.max(1, (long) rows);
  }

  private record Load(double rows, double bytes) {}

  private Load load(Map<TopicPartition, Range> ranges, Map<TopicPartition, Long> ends) {
    double rows = 0;
    double bytes = 0;
    for (Map.Entry<TopicPartition, Range> entry : ranges.entrySet()) {
      long read = ends.get(entry.getKey()) - entry.getValue().start();
      rows += read;
      bytes += read * meanBytes.getOrDefault(entry.getKey(), 0.0);
    }
    return new Load(rows, bytes);
  }

  private static OptionalLong less(OptionalLong limit, double used) {
    return limit.isEmpty() ? limit : OptionalLong.of(Math.max(1, limit.getAsLong() - (long) used));
  }

  private static double share(double amount, OptionalLong limit) {
    return limit.isEmpty() ? 0 : amount / limit.getAsLong();
  }
}
