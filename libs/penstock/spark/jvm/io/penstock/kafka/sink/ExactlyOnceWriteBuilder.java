package io.penstock.kafka.sink;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.write.RecordColumns;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/**
 * The entry point of the exactly-once Kafka sink of a streaming query. As in Spark's own sink, update and complete mode
 * append their rows. In {@code foreachBatch} the option {@code ofQuery} names the query whose batch the rows are.
 */
public record ExactlyOnceWriteBuilder(LogicalWriteInfo info)
    implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private static final String OF_QUERY = "ofQuery";

  @Override
  public WriteBuilder truncate() {
    return this;
  }

  @Override
  public Write build() {
    String master = SparkContext.getOrCreate().master();
    String queryId = info.options().getOrDefault(OF_QUERY, info.queryId());
    SinkOptions options = SinkOptions.of(info.options(), queryId, master);
    RecordColumns columns = RecordColumns.of(info.schema());
    return new Write() {
      @Override
      public StreamingWrite toStreaming() {
        return new KafkaWrite(options, columns, queryId);
      }

      @Override
      public BatchWrite toBatch() {
        if (!info.options().containsKey(OF_QUERY)) {
          throw new BrokenSinkException(
              "option " + OF_QUERY + ": rows outside of a streaming query have no batch by which they are written once."
                  + " In foreachBatch name the query; elsewhere use Spark's format kafka");
        }
        return new KafkaWrite(options, columns, queryId);
      }
    };
  }
}
