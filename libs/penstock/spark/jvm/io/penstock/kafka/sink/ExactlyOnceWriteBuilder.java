package io.penstock.kafka.sink;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/**
 * The exactly-once Kafka sink of a streaming query. As in Spark's own, update and complete mode append the rows that
 * they give.
 */
public final class ExactlyOnceWriteBuilder implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final LogicalWriteInfo info;

  public ExactlyOnceWriteBuilder(LogicalWriteInfo info) {
    this.info = info;
  }

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
