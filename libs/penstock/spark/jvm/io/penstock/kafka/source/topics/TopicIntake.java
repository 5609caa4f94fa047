package io.penstock.kafka.source.topics;

import io.penstock.kafka.source.broker.KafkaLogs;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * What a stream begins to read while it runs.
 *
 * <p>Topics of a pattern are taken in by a batch that reads nothing of them: its end notes where they begin. So a batch
 * that is repeated reads the same rows, and another generation of the job's tasks goes on from there.
 */
public final class TopicIntake {
  private final Optional<MatchingTopics> topics;
  private final KafkaLogs logs;

  /** {@code topics}: of a source with a pattern and key groups. */
  public TopicIntake(Optional<MatchingTopics> topics, KafkaLogs logs) {
    this.topics = topics;
    this.logs = logs;
  }

  /** The offsets without those of topics that the source does not read any more. */
  public Map<TopicPartition, Long> read(Map<TopicPartition, Long> offsets) {
    topics.ifPresent(own -> {
      offsets.keySet().removeIf(partition -> !own.matches(partition.topic()));
      own.keep(offsets.keySet());
    });
    return offsets;
  }

  /**
   * Adds to {@code starts} where new partitions begin. Returns whether the next batch takes topics in; {@code available}
   * then has nothing of them.
   *
   * @param mayTakeIn whether new topics are taken in now; otherwise {@code available} loses them
   */
  public boolean add(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> available, boolean mayTakeIn) {
    Set<TopicPartition> fresh = new HashSet<>(available.keySet());
    fresh.removeAll(starts.keySet());
    if (fresh.isEmpty()) {
      return false;
    }
    if (topics.isPresent() && !mayTakeIn) {
      available.keySet().removeAll(fresh);
      return false;
    }
    Map<TopicPartition, Long> beginnings = logs.earliest(fresh);
    starts.putAll(beginnings);
    topics.ifPresent(own -> available.putAll(beginnings));
    return topics.isPresent();
  }

  /** The ends of a batch without topics that it takes in. */
  public Map<TopicPartition, Long> endsOfRead(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Long> read = new LinkedHashMap<>(ends);
    if (topics.isPresent()) {
      read.keySet().retainAll(starts.keySet());
    }
    return read;
  }
}
