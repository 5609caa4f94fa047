package io.penstock.kafka.sink;

import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.write.RecordColumns;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/**
 * The entry point of the exactly-once Kafka sink of a streaming query. As in Spark's own sink, update and complete mode
 * append their rows.
 */
public record ExactlyOnceWriteBuilder(LogicalWriteInfo info)
    implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  @Override
  public WriteBuilder truncate() {
    return this;
  }

  @Override
  public Write build() {
    String master = SparkContext.getOrCreate().master();
    SinkOptions options = SinkOptions.of(info.options(), info.queryId(), master);
    RecordColumns columns = RecordColumns.of(info.schema());
    return new Write() {
      @Override
      public StreamingWrite toStreaming() {
        return new KafkaStreamingWrite(options, columns, info.queryId());
      }
    };
  }
}
