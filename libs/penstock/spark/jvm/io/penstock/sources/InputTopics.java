package io.penstock.sources;

import io.penstock.kafka.source.offsets.ClusterNames;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import org.apache.kafka.common.TopicPartition;

/** The topics of an input, and what offsets that Spark writes say of them. */
public final class InputTopics {
  private final Pattern names;
  private final ClusterNames cluster;

  /**
   * @param regex matches the names on their cluster
   * @param cluster the name of a further cluster; null for the cell's own
   */
  public InputTopics(String regex, String cluster) {
    this.names = Pattern.compile(regex);
    this.cluster = new ClusterNames(Optional.ofNullable(cluster));
  }

  Optional<String> cluster() {
    return cluster.cluster();
  }

  /** Whether these are offsets of a source of this input. */
  boolean areIn(String offsets) {
    return !offsets.isBlank() && !of(offsets).isEmpty();
  }

  /** The offsets of {@code some} of the partitions that {@code others} names too, by their plain names. */
  Map<TopicPartition, Long> common(String some, String others) {
    Map<TopicPartition, Long> found = new LinkedHashMap<>(of(some));
    found.keySet().retainAll(of(others).keySet());
    return found;
  }

  private Map<TopicPartition, Long> of(String offsets) {
    Map<TopicPartition, Long> found = cluster.parse(offsets, "offsets of a batch");
    found.keySet().removeIf(partition -> !names.matcher(partition.topic()).matches());
    return found;
  }
}
