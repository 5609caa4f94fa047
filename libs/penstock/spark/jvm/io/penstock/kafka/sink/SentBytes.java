package io.penstock.kafka.sink;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.OutputMetrics;

/** Counts what a writer sends, for Spark's metrics of its task; keys and values, before compression. */
final class SentBytes {
  private long records;
  private long bytes;

  ProducerRecord<byte[], byte[]> counted(ProducerRecord<byte[], byte[]> record) {
    records++;
    bytes += length(record.key()) + length(record.value());
    return record;
  }

  /** To be called once, by the task's own thread. */
  void tell() {
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
