package io.penstock.kafka.sink.write;

import io.penstock.kafka.sink.clients.PartitionProducer;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.run.BatchTransaction;
import io.penstock.kafka.sink.run.SinkRuns;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import io.penstock.kafka.sink.series.ReplayCheck;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.OutputMetrics;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** Creates the writers of a batch on the executors. Spark sends it there. */
public record RowWriterFactory(
    SinkOptions options, RecordColumns columns, String runId, Marker batch, Decision decision)
    implements StreamingDataWriterFactory, DataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partition, long attempt) {
    return createWriter(partition, attempt, batch.batchId());
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long attempt, long epoch) {
    if (decision == Decision.SKIP) {
      // The batch is in Kafka already, so its rows are ignored.
      return new RowWriter(partition, attempt) {
        @Override
        public void write(InternalRow row) {}
      };
    }
    return switch (options.scope()) {
      case PARTITION -> new PartitionWriter(partition, attempt);
      case BATCH -> new BatchWriter(SinkRuns.get(runId, options.prefix()).transaction(), partition, attempt);
    };
  }

  /** The number of the task attempt that sent {@code message} after all its rows. */
  public static long attemptOf(WriterCommitMessage message) {
    return ((WrittenAttempt) message).attempt;
  }

  /** The offset after the last row in each partition of the topic, by the messages of all tasks. */
  public static Map<Integer, Long> endsOf(WriterCommitMessage[] messages) {
    Map<Integer, Long> ends = new TreeMap<>();
    for (WriterCommitMessage message : messages) {
      ((WrittenAttempt) message).ends.forEach((partition, end) -> ends.merge(partition, end, Math::max));
    }
    return ends;
  }

  /** {@code ends}: of a transaction of its own. */
  private record WrittenAttempt(long attempt, Map<Integer, Long> ends) implements WriterCommitMessage {}

  /** Counts the records and the bytes of keys and values that it sends, before compression. */
  private abstract class RowWriter implements DataWriter<InternalRow> {
    final int partition;
    final long attempt;
    private long records;
    private long bytes;
    Map<Integer, Long> ends = Map.of();

    RowWriter(int partition, long attempt) {
      this.partition = partition;
      this.attempt = attempt;
    }

    ProducerRecord<byte[], byte[]> counted(InternalRow row) {
      ProducerRecord<byte[], byte[]> record = columns.record(options.topic(), row);
      records++;
      bytes += length(record.key()) + length(record.value());
      return record;
    }

    private static long length(byte[] content) {
      return content == null ? 0 : content.length;
    }

    /** Adds the counts to Spark's metrics of the task. To be called last, on the task's own thread. */
    @Override
    public WriterCommitMessage commit() {
      TaskContext task = TaskContext.get();
      if (task != null) {
        OutputMetrics metrics = task.taskMetrics().outputMetrics();
        metrics.setRecordsWritten(metrics.recordsWritten() + records);
        metrics.setBytesWritten(metrics.bytesWritten() + bytes);
      }
      return new WrittenAttempt(attempt, ends);
    }

    @Override
    public void abort() {}

    @Override
    public void close() {}
  }

  /**
   * Writes one Spark partition into the transaction of the whole batch, which the driver commits. The driver aborts it
   * when an attempt that sent rows did not finish.
   */
  private final class BatchWriter extends RowWriter {
    private final BatchTransaction transaction;
    private boolean joined;

    BatchWriter(BatchTransaction transaction, int partition, long attempt) {
      super(partition, attempt);
      this.transaction = transaction;
    }

    @Override
    public void write(InternalRow row) {
      if (!joined) {
        transaction.join(partition, attempt);
        joined = true;
      }
      transaction.send(counted(row));
    }
  }

  /**
   * Writes one Spark partition in a transaction of its own. A partition without rows commits its marker too, so the
   * markers of all partitions show whether a batch is complete.
   */
  private final class PartitionWriter extends RowWriter {
    private PartitionProducer producer;
    private boolean skip;

    PartitionWriter(int partition, long attempt) {
      super(partition, attempt);
    }

    @Override
    public void write(InternalRow row) {
      begin();
      if (!skip) {
        producer.kafka.send(counted(row));
      }
    }

    @Override
    public WriterCommitMessage commit() {
      begin();
      if (!skip) {
        producer.commit(batch);
        ends = producer.kafka.ends();
      }
      giveBack();
      return super.commit();
    }

    @Override
    public void abort() {
      if (producer == null) {
        return;
      }
      if (skip) {
        giveBack();
      } else {
        producer.kafka.abort();
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
        producer = PartitionProducer.take(options, runId, batch, partition);
        // An error of the check leaves the producer unused: it is not given back.
        skip = ReplayCheck.ofPartition(batch, producer.marker()) == Decision.SKIP;
        if (!skip) {
          producer.kafka.begin();
        }
      }
    }

    private void giveBack() {
      producer.giveBack();
      producer = null;
    }
  }
}
