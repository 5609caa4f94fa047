package io.penstock.sources;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.source.offsets.OffsetsJson;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/**
 * Writes malformed records of one input to a Kafka topic: key, value and headers as they were, and headers that say
 * where each came from and why it is there.
 */
final class DeadLetters {
  private static final String PREFIX = "penstock.";
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String input;
  private final InputTopics topics;
  private final RecordFilter filter;
  private final Column decoded;
  private final Column kind;
  private final Column reason;
  private final RecordDecoder decoder;
  private final Map<String, String> kafka;
  private final Map<String, String> lettersKafka;
  private final String job;
  private final String letters;
  private boolean topicExists;
  private long seen;
  private long rowsBefore;
  private long malformedBefore;

  DeadLetters(
      String input, InputTopics topics, RecordFilter filter, Column decoded, Column kind, Column reason, RecordDecoder decoder,
      Map<String, String> kafka, Map<String, String> lettersKafka, String job, String letters) {
    this.input = input;
    this.topics = topics;
    this.filter = filter;
    this.decoded = decoded;
    this.kind = kind;
    this.reason = reason;
    this.decoder = decoder;
    this.kafka = kafka;
    this.lettersKafka = lettersKafka;
    this.job = job;
    this.letters = letters;
  }

  String name() {
    return input;
  }

  RecordFilter filter() {
    return filter;
  }

  InputTopics topics() {
    return topics;
  }

  /** Whether malformed records were counted since the last question. */
  boolean hasNews() {
    long before = seen;
    seen = filter.malformed();
    return seen > before;
  }

  /** Throws when the share of malformed records is above the limit, in windows of at least so many records. */
  void requireFew(long fewest) {
    long rows = filter.rows() - rowsBefore;
    long malformed = filter.malformed() - malformedBefore;
    if (rows >= fewest) {
      rowsBefore += rows;
      malformedBefore += malformed;
      filter.requireFew(malformed, rows, "in the last batches");
    }
  }

  /** The batch is committed. */
  void nextBatch() {
    if (decoder != null) {
      decoder.nextBatch();
    }
  }

  /**
   * Reads the offsets from {@code start} to {@code end}, as Spark writes them, and writes what is malformed there. A topic
   * that only {@code end} has was taken in by the batch, which has no record of it.
   */
  void write(SparkSession session, String start, String end) {
    Map<TopicPartition, Long> starts = topics.common(start, end);
    if (starts.isEmpty()) {
      return;
    }
    Dataset<Row> found = session.read().format("kafka").options(kafka)
        .option("assign", assigned(starts.keySet()))
        .option("startingOffsets", OffsetsJson.format(starts))
        .option("endingOffsets", OffsetsJson.format(topics.common(end, start)))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .load()
        .withColumn("decoded", decoded)
        .withColumn("kind", kind)
        .where(functions.col("kind").isin(malformedKinds()))
        .select(functions.col("key"), functions.col("value"), headers().as("headers"));
    // A batch that another process planned is read again, whether it has such records or not.
    if (!topicExists && found.isEmpty()) {
      return;
    }
    ensureTopic();
    found.write().format("kafka").options(SinkOptions.producerOptions(lettersKafka)).option("topic", letters).save();
  }

  private static String assigned(Set<TopicPartition> read) {
    Map<String, List<Integer>> partitions = read.stream()
        .collect(Collectors.groupingBy(
            TopicPartition::topic, Collectors.mapping(TopicPartition::partition, Collectors.toList())));
    return JSON.valueToTree(partitions).toString();
  }

  private Object[] malformedKinds() {
    return List.of(RecordFilter.MALFORMED, RecordFilter.NULL_KEY).stream().filter(filter::isMalformed).toArray();
  }

  private Column headers() {
    Column where = functions.array(
        header("job", functions.lit(job)),
        header("input", functions.lit(input)),
        header("topic", functions.col("topic")),
        header("partition", functions.col("partition")),
        header("offset", functions.col("offset")),
        header("timestamp", functions.unix_millis(functions.col("timestamp"))),
        header("reason", reason));
    Column all = topics.cluster()
        .map(cluster -> functions.concat(where, functions.array(header("cluster", functions.lit(cluster)))))
        .orElse(where);
    Column own = functions.col("headers");
    return functions.when(own.isNull(), all).otherwise(functions.concat(own, all));
  }

  private static Column header(String name, Column value) {
    return functions.struct(
        functions.lit(PREFIX + name).as("key"), value.cast("string").cast("binary").as("value"));
  }

  /** Made as the brokers make topics by default, when the first malformed record comes. */
  private void ensureTopic() {
    if (topicExists) {
      return;
    }
    try (Admin admin = Admin.create(SinkOptions.admin(SinkOptions.withoutPrefix(lettersKafka)))) {
      NewTopic wanted = new NewTopic(letters, Optional.empty(), Optional.empty());
      admin.createTopics(List.of(wanted)).all().get();
    } catch (InterruptedException error) {
      // The exception by which Spark recognises that a query is being stopped.
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new InterruptedIOException("interrupted while the dead-letter topic was made"));
    } catch (ExecutionException error) {
      if (!(error.getCause() instanceof TopicExistsException)) {
        throw new IllegalStateException(
            "the dead-letter topic " + letters + " cannot be made: " + error.getCause().getMessage(), error.getCause());
      }
    }
    topicExists = true;
  }
}
