package io.penstock.kafka.sink;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * One transaction that all tasks of a batch write into. It may hold only rows of the attempts that Spark counts: rows
 * of any other attempt cannot be taken out again, so then the whole batch is aborted.
 */
final class BatchTransaction {
  private final FencedProducer producer;
  private final Map<Integer, Long> attempts = new HashMap<>();
  private boolean refused;

  BatchTransaction(FencedProducer producer) {
    this.producer = producer;
  }

  /** An attempt is about to send its first row; the first attempt of all begins the transaction. */
  synchronized void join(int partition, long attempt) {
    if (refused) {
      throw new RetryableSinkException("the batch has ended before attempt " + attempt + " wrote its first row");
    }
    Long first = attempts.putIfAbsent(partition, attempt);
    if (first != null) {
      refused = true;
      throw new RetryableSinkException(
          "Spark partition " + partition + " was tried again after its first attempt had sent rows: they are in the"
              + " transaction of the batch, which is aborted and must be written again");
    }
    if (attempts.size() == 1) {
      producer.begin();
    }
  }

  void send(ProducerRecord<byte[], byte[]> record) {
    producer.send(record);
  }

  /** No attempt may join any more, and none of the rows is to stay. */
  synchronized void refuse() {
    refused = true;
  }

  /** Commits rows and markers; false when no attempt had a row, and nothing is written at all. */
  synchronized boolean commit(Map<String, Marker> markers, Set<Long> finished) {
    if (refused || !finished.containsAll(attempts.values())) {
      refused = true;
      throw new RetryableSinkException(
          "a task attempt that failed had sent rows into the transaction of the batch, which must be written again");
    }
    refused = true;
    if (attempts.isEmpty()) {
      return false;
    }
    producer.commit(markers);
    return true;
  }
}
