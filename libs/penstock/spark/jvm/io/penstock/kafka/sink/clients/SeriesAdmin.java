package io.penstock.kafka.sink.clients;

import io.penstock.kafka.sink.errors.KafkaErrors;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.SeriesNames;
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

/** Kafka's admin calls for one series: check its topic, read its markers, fence older producers. */
public final class SeriesAdmin {
  private final Admin admin;
  private final SinkOptions options;
  private final KafkaErrors errors;

  SeriesAdmin(Admin admin, SinkOptions options) {
    this.admin = admin;
    this.options = options;
    errors = new KafkaErrors(options.topic(), options.prefix(), options.prefix());
  }

  /** Raises BrokenSinkException when the topic is missing. Without this check the producer would retry for a minute. */
  public void requireTopic() {
    wait("reading the topic", admin.describeTopics(List.of(options.topic())).allTopicNames());
  }

  /** The newest marker of {@code queryId} in the driver's group. */
  public Optional<Marker> driverMarker(String queryId) {
    String group = SeriesNames.ofDriver(options.prefix());
    return Optional.ofNullable(markers(List.of(group), queryId).get(group));
  }

  /** The newest marker of {@code queryId} in the group of one Spark partition. */
  Optional<Marker> partitionMarker(String queryId, int partition) {
    return Optional.ofNullable(partitionMarkers(queryId, List.of(partition)).get(partition));
  }

  /** The newest markers of {@code queryId} for Spark partitions below {@code count}, as far as they exist. */
  public Map<Integer, Marker> partitionMarkers(String queryId, int count) {
    return partitionMarkers(queryId, IntStream.range(0, count).boxed().toList());
  }

  /** Fences the producers of Spark partitions below {@code count} and aborts their open transactions. */
  public void fencePartitions(int count) {
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
   * Reads offsets that no open transaction can change. If the query's topic was changed, a group has markers on both
   * topics, and the newest counts.
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
