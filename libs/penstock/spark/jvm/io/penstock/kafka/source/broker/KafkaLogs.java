package io.penstock.kafka.source.broker;

import io.penstock.kafka.marks.MarksTopic;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The logs of partitions on a broker. Counts the look-ups and the time that they take. */
public final class KafkaLogs implements PartitionLogs, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaLogs.class);

  // Its admin client is asked for at each look-up, since Spark replaces the client after errors.
  private final KafkaOffsetReaderAdmin spark;
  private final EventTimes times;
  private final IsolationLevel isolation;
  private SampleReader reader;
  private long lookups;
  private long nanos;

  /** Uses the Kafka settings and the admin client of Spark's own stream. */
  public KafkaLogs(KafkaMicroBatchStream stream, EventTimes times) {
    if (!(stream.kafkaOffsetReader() instanceof KafkaOffsetReaderAdmin admins)) {
      throw new IllegalStateException(
          "spark.sql.streaming.kafka.useDeprecatedOffsetFetching: must be false for penstock-kafka");
    }
    this.spark = admins;
    this.times = times;
    Object level = admins.driverKafkaParams().get(ConsumerConfig.ISOLATION_LEVEL_CONFIG);
    boolean committed = "read_committed".equalsIgnoreCase(String.valueOf(level));
    this.isolation = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
  }

  public long lookups() {
    return lookups;
  }

  public long millis() {
    return nanos / 1_000_000;
  }

  @Override
  public Map<TopicPartition, ListOffsetsResultInfo> firstAtOrAfter(Set<TopicPartition> partitions, long millis) {
    Map<TopicPartition, ListOffsetsResultInfo> found = new HashMap<>(list(partitions, OffsetSpec.forTimestamp(millis)));
    found.values().removeIf(info -> info.offset() < 0);
    return found;
  }

  /** The first offsets that the broker still keeps. */
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
            reader = new SampleReader(spark.driverKafkaParams(), times);
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
    var asked = spark.admin().describeProducers(partitions);
    return partitions.stream()
        .filter(partition -> isTransactional(partition, asked.partitionResult(partition)))
        .collect(Collectors.toSet());
  }

  /** Kafka's client would not close in a thread that is interrupted, so the interrupt is set again afterwards. */
  @Override
  public void close() {
    boolean interrupted = Thread.interrupted();
    try {
      if (reader != null) {
        reader.close();
        reader = null;
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
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
    Map<TopicPartition, OffsetSpec> specs =
        partitions.stream().collect(Collectors.toMap(Function.identity(), partition -> spec));
    return timed(() -> spark.admin().listOffsets(specs, new ListOffsetsOptions(isolation)).all().get());
  }

  /** The marks of producers in this topic below an offset, read with the same Kafka settings. */
  public MarksTopic marks(String topic, long until) {
    return new MarksTopic(spark::admin, spark.driverKafkaParams(), topic, Long.MAX_VALUE, until);
  }

  /** A question to Kafka. */
  @FunctionalInterface
  public interface Lookup<T> {
    T run() throws InterruptedException, ExecutionException;
  }

  /**
   * Spark stops a query by interrupting its thread, and then expects one of Java's own exceptions. Kafka's {@code
   * InterruptException} would make the stopped query a failed one.
   */
  public <T> T timed(Lookup<T> lookup) {
    long start = System.nanoTime();
    try {
      return lookup.run();
    } catch (ExecutionException error) {
      throw new KafkaException("Kafka did not answer a look-up: " + error.getCause().getMessage(), error.getCause());
    } catch (InterruptedException | InterruptException error) {
      Thread.currentThread().interrupt();
      InterruptedIOException interrupted = new InterruptedIOException("interrupted while asking Kafka");
      interrupted.initCause(error);
      throw new UncheckedIOException(interrupted);
    } finally {
      lookups++;
      nanos += System.nanoTime() - start;
    }
  }
}
