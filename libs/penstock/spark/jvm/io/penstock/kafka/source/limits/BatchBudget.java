package io.penstock.kafka.source.limits;

import io.penstock.kafka.source.broker.OffsetRange;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;

/**
 * The limits of one batch in rows, bytes or both. Bytes are estimated as rows times the mean record size of the
 * partition. A partition of unknown record size counts zero bytes.
 */
public record BatchBudget(OptionalLong maxRows, OptionalLong maxBytes, Map<TopicPartition, Double> meanBytes) {
  /** The share of the budget that a batch with these ends uses. Above 1 the batch is too large. */
  public double loadOf(Map<TopicPartition, OffsetRange> ranges, Map<TopicPartition, Long> ends) {
    Load load = load(ranges, ends);
    return Math.max(share(load.rows, maxRows), share(load.bytes, maxBytes));
  }

  /** The budget that remains after these partitions are read to these ends. */
  public BatchBudget without(Map<TopicPartition, OffsetRange> ranges, Map<TopicPartition, Long> ends) {
    Load load = load(ranges, ends);
    return new BatchBudget(less(maxRows, load.rows), less(maxBytes, load.bytes), meanBytes);
  }

  /** The end to which the budget would allow a partition to be read alone; at least one row beyond its start. */
  public long capOf(TopicPartition partition, OffsetRange range) {
    double rows = maxRows.isPresent() ? maxRows.getAsLong() : Double.POSITIVE_INFINITY;
    double size = meanBytes.getOrDefault(partition, 0.0);
    if (maxBytes.isPresent() && size > 0) {
      rows = Math.min(rows, maxBytes.getAsLong() / size);
    }
    return rows >= range.rows() ? range.end() : range.start() + Math.max(1, (long) rows);
  }

  private record Load(double rows, double bytes) {}

  private Load load(Map<TopicPartition, OffsetRange> ranges, Map<TopicPartition, Long> ends) {
    double rows = 0;
    double bytes = 0;
    for (Map.Entry<TopicPartition, OffsetRange> entry : ranges.entrySet()) {
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
