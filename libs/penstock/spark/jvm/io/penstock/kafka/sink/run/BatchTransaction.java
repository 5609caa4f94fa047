package io.penstock.kafka.sink.run;

import io.penstock.kafka.sink.clients.FencedProducer;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.marks.Mark;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * One transaction that all tasks of a batch write into. It may contain rows of successful task attempts only. Rows of
 * another attempt cannot be removed, so such a batch is aborted.
 */
public final class BatchTransaction {
  private final FencedProducer producer;
  private final Map<Integer, Long> attempts = new HashMap<>();
  private boolean refused;

  BatchTransaction(FencedProducer producer) {
    this.producer = producer;
  }

  /** Registers an attempt that is about to send its first row. The first one begins the transaction. */
  public synchronized void join(int partition, long attempt) {
    if (refused) {
      throw new RetryableSinkException("the batch has ended before attempt " + attempt + " wrote its first row");
    }
    Long first = attempts.putIfAbsent(partition, attempt);
    if (first != null) {
      refused = true;
      throw new RetryableSinkException(
          "Spark partition " + partition + " was tried again after its first attempt had sent rows. The"
              + " transaction of the batch is aborted; the batch must be written again");
    }
    if (attempts.size() == 1) {
      producer.begin();
    }
  }

  public void send(ProducerRecord<byte[], byte[]> record) {
    producer.send(record);
  }

  /** Refuses further attempts and the commit. */
  synchronized void refuse() {
    refused = true;
  }

  /** Commits rows and markers. Returns false when no attempt had a row; then nothing is written. */
  synchronized boolean commit(
      Map<String, Marker> markers, Set<Long> finished, Function<Map<Integer, Long>, Optional<Mark>> marked) {
    if (refused || !finished.containsAll(attempts.values())) {
      refused = true;
      throw new RetryableSinkException(
          "a failed task attempt had sent rows into the transaction of the batch: the batch must be written again");
    }
    refused = true;
    if (attempts.isEmpty()) {
      return false;
    }
    producer.commit(markers, marked);
    return true;
  }
}
