package io.penstock.kafka.source.offsets;

import java.util.Map.Entry;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;

/** The choice of the leader's batch with which a follower's next batch ends. */
public final class LeaderBatches {
  private LeaderBatches() {}

  /**
   * The ends of the leader's first batch that ends at or beyond {@code starts} in every partition, and not exactly at
   * {@code starts}. Empty while the leader has not planned such a batch.
   *
   * @param ends the ends of the leader's batches by batch id; the oldest may have been purged
   * @throws IllegalStateException when a purged batch could have been the next one, or when the partitions differ
   */
  public static Optional<Map<TopicPartition, Long>> next(
      NavigableMap<Long, Map<TopicPartition, Long>> ends, Map<TopicPartition, Long> starts) {
    for (Entry<Long, Map<TopicPartition, Long>> batch : ends.entrySet()) {
      requireSamePartitions(batch, starts);
      if (isBeyond(batch.getValue(), starts)) {
        requireNothingGoneBefore(batch.getKey(), ends, starts);
        return Optional.of(batch.getValue());
      }
    }
    return Optional.empty();
  }

  private static boolean isBeyond(Map<TopicPartition, Long> ends, Map<TopicPartition, Long> starts) {
    return !ends.equals(starts)
        && starts.entrySet().stream().allMatch(start -> ends.get(start.getKey()) >= start.getValue());
  }

  private static void requireNothingGoneBefore(
      long batch, NavigableMap<Long, Map<TopicPartition, Long>> ends, Map<TopicPartition, Long> starts) {
    if (batch > 0 && batch == ends.firstKey()) {
      throw new IllegalStateException(
          "option followOffsetLog: the leader's oldest batch is " + batch
              + ", which ends beyond the follower's " + starts
              + ": the batches in between were purged. Start the follower at later offsets, or let the leader keep more"
              + " batches (spark.sql.streaming.minBatchesToRetain)");
    }
  }

  private static void requireSamePartitions(
      Entry<Long, Map<TopicPartition, Long>> batch, Map<TopicPartition, Long> starts) {
    if (!batch.getValue().keySet().equals(starts.keySet())) {
      throw new IllegalStateException(
          "option followOffsetLog: the leader's batch " + batch.getKey() + " has the partitions "
              + batch.getValue().keySet() + ", the follower reads " + starts.keySet());
    }
  }
}
