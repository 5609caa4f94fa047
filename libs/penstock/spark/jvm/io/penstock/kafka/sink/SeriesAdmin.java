package io.penstock.kafka.sink;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;

/** What a series asks Kafka besides writing: its topic, its markers, and the end of older producers. */
final class SeriesAdmin {
  private final Admin admin;
  private final SinkOptions options;
  private final KafkaErrors errors;

  SeriesAdmin(Admin admin, SinkOptions options) {
    this.admin = admin;
    this.options = options;
    errors = new KafkaErrors(options.topic(), options.prefix(), options.prefix());
  }

  /** Without this, writes to a missing topic, and its marker, are tried again for a minute. */
  void requireTopic() {
    wait("looking at the topic", admin.describeTopics(List.of(options.topic())).allTopicNames());
  }

  /** The newest marker of {@code queryId} in the driver's group. */
  Optional<Marker> driverMarker(String queryId) {
    String group = SeriesNames.ofDriver(options.prefix());
    return Optional.ofNullable(markers(List.of(group), queryId).get(group));
  }

  /** The newest marker of {@code queryId} in the group of one Spark partition. */
  Optional<Marker> partitionMarker(String queryId, int partition) {
    return Optional.ofNullable(partitionMarkers(queryId, List.of(partition)).get(partition));
  }

  /** The newest markers of {@code queryId} of Spark partitions below {@code count}; none where there is none. */
  Map<Integer, Marker> partitionMarkers(String queryId, int count) {
    return partitionMarkers(queryId, IntStream.range(0, count).boxed().toList());
  }

  /** Ends the producers of Spark partitions below {@code count}, and what they left open. */
  void fencePartitions(int count) {
    if (count > 0) {
      List<String> ids = IntStream.range(0, count)
          .mapToObj(partition -> SeriesNames.ofPartition(options.prefix(), partition))
          .toList();
      wait("fencing older producers", admin.fenceProducers(ids).all());
    }
  }

  private Map<Integer, Marker> partitionMarkers(String queryId, Collection<Integer> partitions) {
    Map<String, Integer> groups = partitions.stream().collect(Collectors.toMap(
        partition -> SeriesNames.ofPartition(options.prefix(), partition), Function.identity()));
    Map<Integer, Marker> found = new HashMap<>();
    markers(groups.keySet(), queryId).forEach((group, marker) -> found.put(groups.get(group), marker));
    return found;
  }

  /**
   * Only offsets that no open transaction may still change. A marker may lie on another topic, where the query wrote
   * before its topic was changed: the newest counts.
   */
  private Map<String, Marker> markers(Collection<String> groups, String queryId) {
    if (groups.isEmpty()) {
      return Map.of();
    }
    Map<String, ListConsumerGroupOffsetsSpec> wanted =
        groups.stream().collect(Collectors.toMap(Function.identity(), group -> new ListConsumerGroupOffsetsSpec()));
    ListConsumerGroupOffsetsOptions stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
    Map<String, Marker> newest = new HashMap<>();
    wait("reading markers", admin.listConsumerGroupOffsets(wanted, stable).all())
        .forEach((group, offsets) -> newest(group, offsets.values(), queryId)
            .ifPresent(marker -> newest.put(group, marker)));
    return newest;
  }

  private static Optional<Marker> newest(String group, Collection<OffsetAndMetadata> offsets, String queryId) {
    return offsets.stream()
        .filter(Objects::nonNull)
        .map(offset -> Marker.of(group, offset))
        .filter(marker -> marker.queryId().equals(queryId))
        .max((one, other) -> Long.compare(one.batchId(), other.batchId()));
  }

  private <T> T wait(String step, KafkaFuture<T> answer) {
    try {
      return answer.get();
    } catch (InterruptedException | ExecutionException error) {
      throw errors.explain(step, error, false);
    }
  }
}
