package io.penstock.kafka.sink;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one living producer of a transactional id: opening it makes Kafka refuse every older one, and aborts what they
 * left open. Of one owner at a time; but for {@code send}, which any thread may call.
 */
final class FencedProducer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(FencedProducer.class);
  private static final int MARKER_PARTITION = 0;

  private final SinkOptions options;
  private final KafkaErrors errors;
  private final String transactionalId;
  private final Producer<byte[], byte[]> producer;
  private volatile boolean open;
  private volatile long begunNanos;
  private volatile int knownPartitions;

  FencedProducer(SinkOptions options, String transactionalId, Producer<byte[], byte[]> producer) {
    this.options = options;
    this.transactionalId = transactionalId;
    errors = new KafkaErrors(options.topic(), options.prefix(), transactionalId);
    this.producer = producer;
  }

  static FencedProducer open(SinkOptions options, String transactionalId) {
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

  void begin() {
    perform("beginning a transaction", producer::beginTransaction);
    begunNanos = System.nanoTime();
    open = true;
  }

  /** An error that comes later is thrown by {@code commit}. */
  void send(ProducerRecord<byte[], byte[]> record) {
    Integer partition = record.partition();
    if (partition != null && partition >= knownPartitions) {
      requirePartition(partition);
    }
    perform("a write", () -> producer.send(record));
  }

  /** Commits the rows sent since {@code begin}, and the markers by group. */
  void commit(Map<String, Marker> markers) {
    TopicPartition place = new TopicPartition(options.topic(), MARKER_PARTITION);
    perform("the commit", () -> {
      // Without it a producer that is fenced while it sends would wait for its marker until max.block.ms is over.
      Uninterrupted.run(producer::flush);
      markers.forEach((group, marker) -> Uninterrupted.run(() -> producer.sendOffsetsToTransaction(
          Map.of(place, marker.toOffset()), new ConsumerGroupMetadata(group))));
      Uninterrupted.run(producer::commitTransaction);
    });
    open = false;
  }

  /** Ends the transaction, if one is open, and closes: a late thread of the batch cannot write into the next one. */
  void abort() {
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

  // Left to itself, a producer waits a minute for a partition that does not exist.
  private void requirePartition(int partition) {
    perform("looking at the topic", () -> knownPartitions = producer.partitionsFor(options.topic()).size());
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
