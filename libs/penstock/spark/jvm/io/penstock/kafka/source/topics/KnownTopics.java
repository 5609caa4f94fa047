package io.penstock.kafka.source.topics;

import java.util.Collection;
import java.util.HashSet;
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
  /** Topics that do not fit may be many, and seldom come to fit: they are asked for each so many looks. */
  static final int LOOKS_BETWEEN = 10;

  private final Pattern pattern;
  private final KeyGroups keyGroups;
  private final Set<String> topics = new TreeSet<>();
  private final Set<String> refused = new HashSet<>();
  private long looks;

  KnownTopics(String regex, KeyGroups keyGroups) {
    this.pattern = Pattern.compile(regex);
    this.keyGroups = keyGroups;
  }

  boolean matches(String topic) {
    return pattern.matcher(topic).matches();
  }

  /** A look at all names: those of them that match, are not read yet, and are to be asked for now. */
  Set<String> unknown(Collection<String> names) {
    boolean all = looks++ % LOOKS_BETWEEN == 0;
    return names.stream()
        .filter(name -> !topics.contains(name) && (all || !refused.contains(name)) && matches(name))
        .collect(Collectors.toSet());
  }

  /** The topic does not fit. Returns whether that is new. */
  boolean refuse(String topic) {
    return refused.add(topic);
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
