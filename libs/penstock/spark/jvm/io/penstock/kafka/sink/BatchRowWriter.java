package io.penstock.kafka.sink;

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
  private final SentBytes sent = new SentBytes();
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
    sent.tell();
    return new WrittenAttempt(attempt);
  }

  /** Rows that were sent stay in the transaction: the driver misses this attempt among the written and aborts all. */
  @Override
  public void abort() {}

  @Override
  public void close() {}
}
