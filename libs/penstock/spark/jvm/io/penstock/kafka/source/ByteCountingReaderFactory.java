package io.penstock.kafka.source;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.util.LongAccumulator;

/** Readers that count the bytes of their rows (key, value and Kafka's columns) in Spark's own row format. */
record ByteCountingReaderFactory(PartitionReaderFactory readers,
    LongAccumulator count) implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Counted(readers.createReader(partition));
  }

  private final class Counted implements PartitionReader<InternalRow> {
    private final PartitionReader<InternalRow> reader;
    private long bytes;

    Counted(PartitionReader<InternalRow> reader) {
      this.reader = reader;
    }

    @Override
    public boolean next() throws IOException {
      return reader.next();
    }

    @Override
    public InternalRow get() {
      InternalRow row = reader.get();
      if (row instanceof UnsafeRow bare) {
        bytes += bare.getSizeInBytes();
      }
      return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return reader.currentMetricsValues();
    }

    @Override
    public void initMetricsValues(CustomTaskMetric[] metrics) {
      reader.initMetricsValues(metrics);
    }

    @Override
    public void close() throws IOException {
      count.add(bytes);
      bytes = 0;
      reader.close();
    }
  }
}
