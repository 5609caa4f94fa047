package io.penstock.kafka.marks;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads the marks of a topic's producers, in their order. The marks are in a topic of one partition beside it. It need
 * not exist: then no producer writes marks. Not for several threads at once.
 */
public final class MarksTopic implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final Supplier<Admin> admin;
  private final Map<String, Object> kafka;
  private final TopicPartition place;
  private final long newest;
  private final long until;
  private KafkaConsumer<byte[], byte[]> consumer;
  private long position;

  /** What is done with a mark and its offset. */
  @FunctionalInterface
  public interface Reader {
    void add(long offset, Mark mark);
  }

  /**
   * Reads all marks below the offset {@code until}, or about so many of the newest.
   *
   * @param admin a client of the same brokers
   * @param kafka settings of a client, bootstrap.servers among them
   */
  public MarksTopic(Supplier<Admin> admin, Map<String, ?> kafka, String topic, long newest, long until) {
    this.until = until;
    this.admin = admin;
    this.kafka = new HashMap<>(kafka);
    this.place = new TopicPartition(topic, 0);
    this.newest = newest;
  }

  /** Whether the topic was there when it was last looked for. */
  public boolean isOpen() {
    return consumer != null;
  }

  /** The offset before which all marks were read. */
  public long position() {
    return position;
  }

  /** Whether marks behind {@code position} are hidden by a transaction that has not ended. */
  public boolean hidesMarks() throws ExecutionException, InterruptedException {
    if (!isOpen() || position >= until) {
      return false;
    }
    ListOffsetsOptions written = new ListOffsetsOptions(IsolationLevel.READ_UNCOMMITTED);
    return admin.get().listOffsets(Map.of(place, OffsetSpec.latest()), written).partitionResult(place).get().offset()
        > position;
  }

  /** Reads on to the end: all marks that transactions had committed when this was called. */
  public void readOn(Reader reader) {
    if (consumer == null && !open()) {
      return;
    }
    long end = Math.min(until, consumer.endOffsets(Set.of(place)).get(place));
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (position < end) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
        if (record.offset() < until) {
          reader.add(record.offset(), Mark.of(record.value()));
        }
      }
      position = consumer.position(place);
      if (position < end && System.nanoTime() > deadline) {
        throw new TimeoutException("the marks in " + place + " cannot be read");
      }
    }
  }

  /** Kafka's client would not close in a thread that is interrupted, so the interrupt is set again afterwards. */
  @Override
  public void close() {
    boolean interrupted = Thread.interrupted();
    try {
      if (consumer != null) {
        consumer.close(Duration.ZERO);
        consumer = null;
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private boolean open() {
    if (!exists()) {
      return false;
    }
    Map<String, Object> settings = new HashMap<>(kafka);
    settings.keySet().retainAll(ConsumerConfig.configNames());
    settings.remove(ConsumerConfig.GROUP_ID_CONFIG);
    settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    settings.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    settings.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 10);
    settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    consumer = new KafkaConsumer<>(settings);
    consumer.assign(List.of(place));
    long begin = consumer.beginningOffsets(Set.of(place)).get(place);
    position = Math.max(begin, consumer.endOffsets(Set.of(place)).get(place) - newest);
    consumer.seek(place, position);
    return true;
  }

  private boolean exists() {
    try {
      admin.get().describeTopics(List.of(place.topic())).allTopicNames().get();
      return true;
    } catch (ExecutionException error) {
      if (error.getCause() instanceof UnknownTopicOrPartitionException) {
        return false;
      }
      throw new KafkaException("the marks in " + place + " cannot be read", error.getCause());
    } catch (InterruptedException error) {
      throw new InterruptException(error);
    }
  }
}
