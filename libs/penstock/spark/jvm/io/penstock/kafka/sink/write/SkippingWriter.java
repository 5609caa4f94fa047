package io.penstock.kafka.sink.write;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Ignores the rows of a batch that is in Kafka already. */
record SkippingWriter(long attempt) implements DataWriter<InternalRow> {
  @Override
  public void write(InternalRow row) {}

  @Override
  public WriterCommitMessage commit() {
    return new WrittenAttempt(attempt);
  }

  @Override
  public void abort() {}

  @Override
  public void close() {}
}
