package io.penstock.kafka.sink;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecutionContext;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** What Spark's running query says of the batch that its own thread is about to write. Only on the driver. */
final class RunningQuery {
  private static final int HASH_CHARACTERS = 32;

  private RunningQuery() {}

  /**
   * The batch that the query {@code queryId} writes now.
   *
   * @param partitions the Spark partitions with a transaction each; 0: one transaction for all
   */
  static PlannedBatch batch(String queryId, int partitions) {
    StreamExecution query = SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(queryId));
    if (query == null) {
      throw new RetryableSinkException("the query " + queryId + " does not run any more");
    }
    if (partitions > 0) {
      RepeatableSources.require(CollectionConverters.asJava(query.sources()));
    }
    StreamExecutionContext context = query.getLatestExecutionContext();
    List<String> ends = new ArrayList<>();
    for (SparkDataStream source : CollectionConverters.asJava(query.sources())) {
      Option<Offset> end = context.endOffsets().get(source);
      ends.add(end.isEmpty() ? "" : end.get().json());
    }
    return new PlannedBatch(queryId, query.runId().toString(), context.batchId(), hash(ends), partitions);
  }

  /** Of the end offsets of the sources, in the order of the query. */
  static String hash(List<String> offsets) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (String offset : offsets) {
        byte[] text = offset.getBytes(StandardCharsets.UTF_8);
        digest.update((text.length + ":").getBytes(StandardCharsets.UTF_8));
        digest.update(text);
      }
      return HexFormat.of().formatHex(digest.digest()).substring(0, HASH_CHARACTERS);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java has SHA-256", error);
    }
  }
}
