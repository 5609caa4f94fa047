package io.penstock.kafka.sink.clients;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheBuilder;
import com.google.common.cache.RemovalNotification;
import io.penstock.kafka.sink.errors.KafkaErrors;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;

/**
 * Kafka's admin calls for one series: check its topic, read its markers, fence older producers.
 *
 * <p>The series of a JVM share one client for each Kafka cluster. It is closed after 10 minutes without a call, which
 * is longer than any call lasts.
 */
public final class SeriesAdmin {
  private static final Cache<Map<String, String>, Admin> CLIENTS = CacheBuilder.newBuilder()
      .expireAfterAccess(Duration.ofMinutes(10))
      .removalListener((RemovalNotification<Map<String, String>, Admin> idle) -> idle.getValue().close(Duration.ZERO))
      .build();

  static {
    ClientHousekeeper.everySecond(nowNanos -> CLIENTS.cleanUp());
  }

  private final SinkOptions options;
  private final KafkaErrors errors;

  public SeriesAdmin(SinkOptions options) {
    this.options = options;
    errors = new KafkaErrors(options.topic(), options.prefix(), options.prefix());
  }

  /** Raises BrokenSinkException when a topic is missing. Without this check the producer would retry for a minute. */
  public void requireTopics() {
    List<String> topics =
        options.marks().areOn() ? List.of(options.topic(), options.marks().topic()) : List.of(options.topic());
    wait("reading the topic", client().describeTopics(topics).allTopicNames());
  }

  /** Fences the producers of these transactional ids and aborts their open transactions. */
  public void fence(List<String> ids) {
    if (!ids.isEmpty()) {
      wait("fencing older producers", client().fenceProducers(ids).all());
    }
  }

  /**
   * The newest marker of {@code queryId} in each of these groups that has one. Reads offsets that no open transaction
   * can change. If the query's topic was changed, a group has markers on both topics, and the newest counts.
   */
  public List<Marker> markers(List<String> groups, String queryId) {
    if (groups.isEmpty()) {
      return List.of();
    }
    Map<String, ListConsumerGroupOffsetsSpec> wanted =
        groups.stream().collect(Collectors.toMap(Function.identity(), group -> new ListConsumerGroupOffsetsSpec()));
    ListConsumerGroupOffsetsOptions stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
    return wait("reading markers", client().listConsumerGroupOffsets(wanted, stable).all()).entrySet().stream()
        .flatMap(group -> newest(group.getKey(), group.getValue().values(), queryId).stream())
        .toList();
  }

  private static Optional<Marker> newest(String group, Collection<OffsetAndMetadata> offsets, String queryId) {
    return offsets.stream()
        .filter(Objects::nonNull)
        .map(offset -> Marker.of(group, offset))
        .filter(marker -> marker.queryId().equals(queryId))
        .max(Comparator.comparingLong(Marker::batchId));
  }

  private Admin client() {
    return client(options);
  }

  static Admin client(SinkOptions options) {
    return CLIENTS.asMap().computeIfAbsent(options.kafka(), kafka -> Admin.create(SinkOptions.admin(kafka)));
  }

  private <T> T wait(String step, KafkaFuture<T> answer) {
    try {
      return answer.get();
    } catch (InterruptedException | ExecutionException error) {
      throw errors.explain(step, error, false);
    }
  }
}
