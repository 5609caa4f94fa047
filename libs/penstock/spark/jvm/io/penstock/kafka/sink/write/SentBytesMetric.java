package io.penstock.kafka.sink.write;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.OutputMetrics;

/** Counts the records and the bytes of keys and values that a writer sends, before compression. */
final class SentBytesMetric {
  private long records;
  private long bytes;

  ProducerRecord<byte[], byte[]> counted(ProducerRecord<byte[], byte[]> record) {
    records++;
    bytes += length(record.key()) + length(record.value());
    return record;
  }

  /** Adds the counts to Spark's metrics of the task. To be called once, on the task's own thread. */
  void report() {
    TaskContext task = TaskContext.get();
    if (task != null) {
      OutputMetrics metrics = task.taskMetrics().outputMetrics();
      metrics.setRecordsWritten(metrics.recordsWritten() + records);
      metrics.setBytesWritten(metrics.bytesWritten() + bytes);
    }
  }

  private static long length(byte[] content) {
    return content == null ? 0 : content.length;
  }
}
