package io.penstock.kafka.source.broker;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The logs of partitions on a broker. Counts the look-ups and the time that they take. */
public final class KafkaLogs implements PartitionLogs, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaLogs.class);

  private final Supplier<Admin> admin;
  private final Supplier<SampleReader> readers;
  private final IsolationLevel isolation;
  private SampleReader reader;
  private long lookups;
  private long nanos;

  /**
   * @param admin gives Spark's admin client. It is called for each look-up, since Spark replaces its client after
   *     errors
   * @param readers makes the reader of samples when it is first needed
   */
  public KafkaLogs(Supplier<Admin> admin, Supplier<SampleReader> readers, IsolationLevel isolation) {
    this.admin = admin;
    this.readers = readers;
    this.isolation = isolation;
  }

  public long lookups() {
    return lookups;
  }

  public long millis() {
    return nanos / 1_000_000;
  }

  @Override
  public Map<TopicPartition, TimeIndexEntry> firstAtOrAfter(Set<TopicPartition> partitions, long millis) {
    Map<TopicPartition, TimeIndexEntry> found = new HashMap<>();
    list(partitions, OffsetSpec.forTimestamp(millis))
        .forEach(
            (partition, info) -> {
              if (info.offset() >= 0) {
                found.put(partition, new TimeIndexEntry(info.offset(), info.timestamp()));
              }
            });
    return found;
  }

  @Override
  public Map<TopicPartition, Long> earliest(Set<TopicPartition> partitions) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    list(partitions, OffsetSpec.earliest()).forEach((partition, info) -> offsets.put(partition, info.offset()));
    return offsets;
  }

  @Override
  public Map<TopicPartition, Sample> samplesAt(
      Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges) {
    return timed(
        () -> {
          if (reader == null) {
            reader = readers.get();
          }
          return reader.read(offsets, ranges);
        });
  }

  /**
   * Asks the brokers, which remember a producer for a day by default. If they have forgotten it, or refuse to answer,
   * the planner still detects transaction markers: it compares suspicious answers of the time index with records.
   */
  @Override
  public Set<TopicPartition> writtenByTransactions(Set<TopicPartition> partitions) {
    Map<TopicPartition, KafkaFuture<PartitionProducerState>> answers = new HashMap<>();
    var asked = admin.get().describeProducers(partitions);
    partitions.forEach(partition -> answers.put(partition, asked.partitionResult(partition)));
    Set<TopicPartition> found = new HashSet<>();
    answers.forEach(
        (partition, answer) -> {
          if (isTransactional(partition, answer)) {
            found.add(partition);
          }
        });
    return found;
  }

  @Override
  public void close() {
    if (reader != null) {
      Interrupts.without(reader::close);
      reader = null;
    }
  }

  private boolean isTransactional(TopicPartition partition, KafkaFuture<PartitionProducerState> answer) {
    try {
      return timed(answer::get).activeProducers().stream().anyMatch(KafkaLogs::writesTransactions);
    } catch (KafkaException error) {
      LOG.warn("cannot determine whether transactions write {}: {}", partition, error.getMessage());
      return false;
    }
  }

  private static boolean writesTransactions(ProducerState producer) {
    return producer.currentTransactionStartOffset().isPresent() || producer.coordinatorEpoch().orElse(-1) >= 0;
  }

  private Map<TopicPartition, ListOffsetsResultInfo> list(Set<TopicPartition> partitions, OffsetSpec spec) {
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    partitions.forEach(partition -> specs.put(partition, spec));
    return timed(() -> admin.get().listOffsets(specs, new ListOffsetsOptions(isolation)).all().get());
  }

  /** A look-up at the broker. */
  @FunctionalInterface
  private interface Lookup<T> {
    T run() throws InterruptedException, ExecutionException;
  }

  private <T> T timed(Lookup<T> lookup) {
    long start = System.nanoTime();
    try {
      return Interrupts.translate(() -> answerOf(lookup));
    } finally {
      lookups++;
      nanos += System.nanoTime() - start;
    }
  }

  private static <T> T answerOf(Lookup<T> lookup) throws InterruptedException {
    try {
      return lookup.run();
    } catch (ExecutionException error) {
      throw new KafkaException("Kafka did not answer a look-up: " + error.getCause().getMessage(), error.getCause());
    }
  }
}
