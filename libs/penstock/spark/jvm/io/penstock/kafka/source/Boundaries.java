package io.penstock.kafka.source;

import java.util.Map;
import java.util.Map.Entry;
import java.util.NavigableMap;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;

/** Which of the leader's batch ends is the next for a follower. */
final class Boundaries {
  private Boundaries() {}

  /**
   * The ends of the first batch of the leader that lies, in every partition, at or beyond {@code starts} and is not
   * the same; empty while the leader has not planned that far.
   *
   * @param ends of the leader's batches, of which the oldest may be gone
   * @throws IllegalStateException when boundaries in between may be gone, or partitions differ
   */
  static Optional<Map<TopicPartition, Long>> next(
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
              + ": batches in between are purged; start the follower later in the log, or keep more of it "
              + "(spark.sql.streaming.minBatchesToRetain)");
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
