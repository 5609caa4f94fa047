package io.penstock.kafka.sink.write;

import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.run.SinkRuns;
import io.penstock.kafka.sink.series.PlannedBatch;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** Creates the writers of a batch on the executors. Spark sends it there. */
public record RowWriterFactory(SinkOptions options, RecordColumns columns, PlannedBatch batch, Decision decision)
    implements StreamingDataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partition, long attempt, long epoch) {
    if (decision == Decision.SKIP) {
      return new SkippingWriter(attempt);
    }
    return switch (options.scope()) {
      case PARTITION -> new PartitionRowWriter(options, columns, batch, partition, attempt);
      case BATCH -> new BatchRowWriter(
          SinkRuns.get(batch.runId()).transaction(), options.topic(), columns, partition, attempt);
    };
  }
}
