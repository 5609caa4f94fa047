package io.penstock.kafka.source.topics;

import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/**
 * The topics that a source reads. One that it reads stays: also when it has grown, and when Kafka has it no more, so
 * that the query fails then.
 */
final class KnownTopics {
  private final Pattern pattern;
  private final KeyGroups keyGroups;
  private final Set<String> topics = new TreeSet<>();

  KnownTopics(String regex, KeyGroups keyGroups) {
    this.pattern = Pattern.compile(regex);
    this.keyGroups = keyGroups;
  }

  boolean matches(String topic) {
    return pattern.matcher(topic).matches();
  }

  /** Those of the names that match and are not read yet. */
  Set<String> unknown(Collection<String> names) {
    return names.stream().filter(name -> !topics.contains(name) && matches(name)).collect(Collectors.toSet());
  }

  /** A topic is taken whole or not at all. Returns whether it is taken. */
  boolean take(String topic, int partitions, boolean readable) {
    boolean fits = readable && partitions == keyGroups.count();
    return fits && topics.add(topic);
  }

  /** The query has offsets of these partitions. */
  void keep(Collection<TopicPartition> read) {
    read.stream().map(TopicPartition::topic).filter(this::matches).forEach(topics::add);
  }

  Set<TopicPartition> partitions() {
    return topics.stream().flatMap(keyGroups::in).collect(Collectors.toSet());
  }
}
