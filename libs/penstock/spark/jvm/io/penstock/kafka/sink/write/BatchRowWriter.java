package io.penstock.kafka.sink.write;

import io.penstock.kafka.sink.run.BatchTransaction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Writes one Spark partition into the transaction of the whole batch, which the driver commits. */
final class BatchRowWriter implements DataWriter<InternalRow> {
  private final BatchTransaction transaction;
  private final String topic;
  private final RecordColumns columns;
  private final int partition;
  private final long attempt;
  private final SentBytesMetric sent = new SentBytesMetric();
  private boolean joined;

  BatchRowWriter(BatchTransaction transaction, String topic, RecordColumns columns, int partition, long attempt) {
    this.transaction = transaction;
    this.topic = topic;
    this.columns = columns;
    this.partition = partition;
    this.attempt = attempt;
  }

  @Override
  public void write(InternalRow row) {
    if (!joined) {
      transaction.join(partition, attempt);
      joined = true;
    }
    transaction.send(sent.counted(columns.record(topic, row)));
  }

  @Override
  public WriterCommitMessage commit() {
    sent.report();
    return new WrittenAttempt(attempt);
  }

  /** Does nothing: the driver aborts the whole transaction when an attempt that sent rows did not finish. */
  @Override
  public void abort() {}

  @Override
  public void close() {}
}
