package io.penstock.kafka.sink.clients;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import io.penstock.kafka.sink.errors.KafkaErrors;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.marks.Mark;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The only valid producer of a transactional id. Opening it makes Kafka refuse all older producers of the id and abort
 * their open transactions. Any thread may call {@code send}; the other methods need one owner at a time.
 */
public final class FencedProducer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(FencedProducer.class);
  private static final int MARKER_PARTITION = 0;

  private final SinkOptions options;
  private final KafkaErrors errors;
  private final String transactionalId;
  private final Producer<byte[], byte[]> producer;
  private volatile boolean open;
  private volatile long begunNanos;
  private volatile int knownPartitions;
  private final Map<Integer, Long> ends = new ConcurrentHashMap<>();
  private final Callback noteEnd = (metadata, error) -> {
    if (error == null) {
      ends.merge(metadata.partition(), metadata.offset() + 1, Math::max);
    }
  };

  public FencedProducer(SinkOptions options, String transactionalId, Producer<byte[], byte[]> producer) {
    this.options = options;
    this.transactionalId = transactionalId;
    errors = new KafkaErrors(options.topic(), options.prefix(), transactionalId);
    this.producer = producer;
  }

  public static FencedProducer open(SinkOptions options, String transactionalId) {
    FencedProducer opened =
        new FencedProducer(options, transactionalId, new KafkaProducer<>(options.producer(transactionalId)));
    try {
      opened.producer.initTransactions();
      return opened;
    } catch (RuntimeException error) {
      opened.close();
      throw opened.errors.explain("opening a producer", error, false);
    }
  }

  public void begin() {
    perform("beginning a transaction", producer::beginTransaction);
    begunNanos = System.nanoTime();
    ends.clear();
    open = true;
  }

  /** Sends asynchronously. A later error is thrown by {@code commit}. */
  public void send(ProducerRecord<byte[], byte[]> record) {
    Integer partition = record.partition();
    if (partition != null && partition >= knownPartitions) {
      requirePartition(partition);
    }
    perform("a write", () -> producer.send(record, noteEnd));
  }

  /** The offset after the last row of the newest transaction, by partition. Complete once it is committed. */
  public Map<Integer, Long> ends() {
    return Map.copyOf(ends);
  }

  /** Commits the rows sent since {@code begin}, and the markers by group. */
  public void commit(Map<String, Marker> markers) {
    commit(markers, rows -> Optional.empty());
  }

  /** The same, with a mark that is made from the ends of the rows by partition. */
  public void commit(Map<String, Marker> markers, Function<Map<Integer, Long>, Optional<Mark>> marked) {
    TopicPartition place = new TopicPartition(options.topic(), MARKER_PARTITION);
    perform("the commit", () -> {
      // Without the flush, a producer that is fenced while it sends would wait max.block.ms for its marker.
      Uninterrupted.run(producer::flush);
      marked.apply(ends()).ifPresent(mark -> producer.send(new ProducerRecord<>(
          options.marks().topic(), 0, mark.producer().name().getBytes(StandardCharsets.UTF_8), mark.toBytes())));
      markers.forEach((group, marker) -> Uninterrupted.run(() -> producer.sendOffsetsToTransaction(
          Map.of(place, marker.toOffset()), new ConsumerGroupMetadata(group))));
      Uninterrupted.run(producer::commitTransaction);
    });
    open = false;
  }

  /** Aborts an open transaction and closes, so that a late thread of the batch cannot write into the next batch. */
  public void abort() {
    try {
      if (open) {
        open = false;
        Uninterrupted.run(producer::abortTransaction);
      }
    } catch (RuntimeException error) {
      // The next producer of this id ends the transaction, or Kafka after its timeout.
      LOG.warn("the transaction of {} could not be aborted", transactionalId, error);
    } finally {
      close();
    }
  }

  @Override
  public void close() {
    Uninterrupted.run(() -> producer.close(Duration.ZERO));
  }

  // Kafka's producer would wait a minute for a partition that does not exist.
  private void requirePartition(int partition) {
    perform("reading the partitions of the topic", () -> knownPartitions =
        producer.partitionsFor(options.topic()).size());
    if (partition >= knownPartitions) {
      throw new BrokenSinkException(
          "column partition: is " + partition + ", but the topic " + options.topic() + " has the partitions 0 to "
              + (knownPartitions - 1));
    }
  }

  private void perform(String step, Runnable action) {
    try {
      action.run();
    } catch (RuntimeException error) {
      boolean timedOut = open && System.nanoTime() - begunNanos >= options.transactionTimeout().toNanos();
      throw errors.explain(step, error, timedOut);
    }
  }
}
