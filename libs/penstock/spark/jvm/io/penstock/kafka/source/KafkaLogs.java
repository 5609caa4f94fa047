package io.penstock.kafka.source;

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

/** The logs of partitions on a broker. Counts what it asked, and the time that took. */
final class KafkaLogs implements PartitionLogs, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaLogs.class);

  private final Supplier<Admin> admin;
  private final Supplier<RunReader> readers;
  private final IsolationLevel isolation;
  private RunReader reader;
  private long lookups;
  private long nanos;

  /**
   * @param admin gives Spark's client, asked afresh each time: Spark replaces it after errors
   * @param readers makes a reader, when one is needed for the first time
   */
  KafkaLogs(Supplier<Admin> admin, Supplier<RunReader> readers, IsolationLevel isolation) {
    this.admin = admin;
    this.readers = readers;
    this.isolation = isolation;
  }

  long lookups() {
    return lookups;
  }

  long millis() {
    return nanos / 1_000_000;
  }

  @Override
  public Map<TopicPartition, Found> firstNotBefore(Set<TopicPartition> partitions, long millis) {
    Map<TopicPartition, Found> found = new HashMap<>();
    list(partitions, OffsetSpec.forTimestamp(millis))
        .forEach(
            (partition, info) -> {
              if (info.offset() >= 0) {
                found.put(partition, new Found(info.offset(), info.timestamp()));
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
  public Map<TopicPartition, Run> runsAt(Map<TopicPartition, Long> offsets, Map<TopicPartition, Range> ranges) {
    return timed(
        () -> {
          if (reader == null) {
            reader = readers.get();
          }
          return reader.read(offsets, ranges);
        });
  }

  /**
   * Brokers know the producers that wrote lately (by default a day). Where none is known any more, or nothing may be
   * asked of them, the markers still show: the index's answers are looked at before they are believed.
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
      LOG.warn("cannot tell whether {} is written by transactions: {}", partition, error.getMessage());
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

  /** A question to the broker. */
  @FunctionalInterface
  private interface Question<T> {
    T ask() throws InterruptedException, ExecutionException;
  }

  private <T> T timed(Question<T> question) {
    long start = System.nanoTime();
    try {
      return Interrupts.translate(() -> answerOf(question));
    } finally {
      lookups++;
      nanos += System.nanoTime() - start;
    }
  }

  private static <T> T answerOf(Question<T> question) throws InterruptedException {
    try {
      return question.ask();
    } catch (ExecutionException error) {
      throw new KafkaException("Kafka does not answer: " + error.getCause().getMessage(), error.getCause());
    }
  }
}
