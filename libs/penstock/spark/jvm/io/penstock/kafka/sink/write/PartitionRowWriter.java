package io.penstock.kafka.sink.write;

import io.penstock.kafka.sink.clients.PartitionProducer;
import io.penstock.kafka.sink.clients.PartitionProducers;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.PlannedBatch;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import io.penstock.kafka.sink.series.ReplayCheck;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Writes one Spark partition in a transaction of its own. A partition without rows commits its marker too, so the
 * markers of all partitions show whether a batch is complete.
 */
final class PartitionRowWriter implements DataWriter<InternalRow> {
  private final SinkOptions options;
  private final RecordColumns columns;
  private final PlannedBatch batch;
  private final int partition;
  private final long attempt;
  private final SentBytesMetric sent = new SentBytesMetric();
  private PartitionProducer producer;
  private boolean skip;

  PartitionRowWriter(SinkOptions options, RecordColumns columns, PlannedBatch batch, int partition, long attempt) {
    this.options = options;
    this.columns = columns;
    this.batch = batch;
    this.partition = partition;
    this.attempt = attempt;
  }

  @Override
  public void write(InternalRow row) {
    begin();
    if (!skip) {
      producer.producer.send(sent.counted(columns.record(options.topic(), row)));
    }
  }

  @Override
  public WriterCommitMessage commit() {
    begin();
    if (!skip) {
      producer.commit(batch);
      sent.report();
    }
    giveBack();
    return new WrittenAttempt(attempt);
  }

  @Override
  public void abort() {
    if (producer == null) {
      return;
    }
    if (skip) {
      giveBack();
    } else {
      producer.producer.abort();
      producer = null;
    }
  }

  /** Spark always calls this method, also when it called neither commit nor abort. */
  @Override
  public void close() {
    abort();
  }

  private void begin() {
    if (producer == null) {
      PartitionProducer taken = PartitionProducers.take(options, batch, partition);
      producer = taken;
      // An error of the check leaves the producer unused: it is not given back.
      skip = ReplayCheck.ofPartition(batch, taken.marker()) == Decision.SKIP;
      if (!skip) {
        taken.producer.begin();
      }
    }
  }

  private void giveBack() {
    PartitionProducers.giveBack(producer, batch);
    producer = null;
  }
}
