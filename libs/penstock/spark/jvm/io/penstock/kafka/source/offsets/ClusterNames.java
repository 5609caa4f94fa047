package io.penstock.kafka.source.offsets;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/**
 * The names of topics in offsets that leave a source: with the name of the topic's cluster, if it has one, such as
 * {@code orders@eu}. So a query may read topics of one name on several clusters.
 */
public record ClusterNames(Optional<String> cluster) {
  private static final String SEPARATOR = "@"; // no topic's name has one

  /** Offsets with plain names, as text with the names that leave the source. The same offsets give the same text. */
  public String qualified(String plain) {
    return cluster.map(name -> OffsetsJson.format(renamed(plain, SEPARATOR + name))).orElse(plain);
  }

  /** The offsets of this cluster's topics in a text with such names, by their plain names. */
  public Map<TopicPartition, Long> parse(String qualified, String what) {
    Map<TopicPartition, Long> own = new LinkedHashMap<>();
    OffsetsJson.parse(qualified, what).forEach((partition, offset) -> {
      if (clusterOf(partition.topic()).equals(cluster)) {
        own.put(new TopicPartition(plainName(partition.topic()), partition.partition()), offset);
      }
    });
    return own;
  }

  /** The name that a topic of the cluster has outside of the source. */
  public String full(String topic) {
    return cluster.map(name -> topic + SEPARATOR + name).orElse(topic);
  }

  /** The name of the cluster in a topic's name. Empty for a topic of the cell's own. */
  private static Optional<String> clusterOf(String topic) {
    int at = topic.indexOf(SEPARATOR);
    return at < 0 ? Optional.empty() : Optional.of(topic.substring(at + 1));
  }

  private static String plainName(String topic) {
    int at = topic.indexOf(SEPARATOR);
    return at < 0 ? topic : topic.substring(0, at);
  }

  private static Map<TopicPartition, Long> renamed(String plain, String suffix) {
    Map<TopicPartition, Long> sorted = new LinkedHashMap<>();
    Map<String, TreeMap<Integer, Long>> byTopic = new TreeMap<>();
    OffsetsJson.parse(plain, "offsets of Kafka").forEach((partition, offset) -> byTopic
        .computeIfAbsent(partition.topic() + suffix, fresh -> new TreeMap<>())
        .put(partition.partition(), offset));
    byTopic.forEach((topic, offsets) -> offsets.forEach(
        (partition, offset) -> sorted.put(new TopicPartition(topic, partition), offset)));
    return sorted;
  }
}
