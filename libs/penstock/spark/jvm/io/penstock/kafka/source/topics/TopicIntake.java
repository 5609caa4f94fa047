package io.penstock.kafka.source.topics;

import io.penstock.kafka.source.broker.KafkaLogs;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/**
 * What a stream begins to read while it runs.
 *
 * <p>Topics of a pattern are taken in by a batch that reads nothing of them: its end notes where they begin. So a batch
 * that is repeated reads the same rows, and another generation of the job's tasks goes on from there. In the same way a
 * batch leaves out topics that are not read any more: from then on the checkpoint knows nothing of them.
 */
public final class TopicIntake {
  private final Optional<MatchingTopics> topics;
  private final KafkaLogs logs;
  private final TopicNotes notes;

  /** {@code topics}: of a source with a pattern and key groups. */
  public TopicIntake(Optional<MatchingTopics> topics, KafkaLogs logs, TopicNotes notes) {
    this.topics = topics;
    this.logs = logs;
    this.notes = notes;
  }

  /** Whether the source has a pattern. Otherwise offsets are read as they are. */
  public boolean isOn() {
    return topics.isPresent();
  }

  /** A query without a checkpoint begins with these partitions. */
  public void begin(Set<TopicPartition> partitions) {
    note(partitions);
  }

  /** Whether offsets have topics that the source does not read any more. */
  public boolean forgets(Map<TopicPartition, Long> offsets) {
    return topics.filter(own -> offsets.keySet().stream().anyMatch(part -> !own.matches(part.topic()))).isPresent();
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
    note(fresh);
    Map<TopicPartition, Long> beginnings = logs.earliest(fresh);
    starts.putAll(beginnings);
    topics.ifPresent(own -> available.putAll(beginnings));
    return topics.isPresent();
  }

  /** Before their offsets are known: of a topic that is made again meanwhile the note is wrong, and a start says so. */
  private void note(Set<TopicPartition> fresh) {
    Set<String> names = fresh.stream().map(TopicPartition::topic).collect(Collectors.toSet());
    topics.ifPresent(own -> names.forEach(topic -> own.id(topic).ifPresent(id -> notes.note(topic, id))));
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
