package io.penstock.kafka.sink.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.sink.clients.FencedProducer;
import io.penstock.kafka.sink.errors.FencedSinkException;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Stories of task attempts, on Kafka's own mock of a producer. */
class BatchTransactionTest {
  private static final Map<String, Marker> MARKERS = Map.of("jobs/1", new Marker("q", 5, "h", 0));

  private final MockProducer<byte[], byte[]> kafka =
      new MockProducer<>(true, new ByteArraySerializer(), new ByteArraySerializer());
  private final SinkOptions options = SinkOptions.of(
      new CaseInsensitiveStringMap(Map.of("topic", "t", "kafka.bootstrap.servers", "b:1")), "q", "local");
  private final FencedProducer producer = new FencedProducer(options, "jobs/1", kafka);
  private final BatchTransaction transaction = new BatchTransaction(producer);

  @BeforeEach
  void open() {
    kafka.initTransactions();
  }

  @Test
  void rowsOfAllPartitionsAndTheMarkerAreCommittedTogether() {
    write(0, 100);
    write(1, 101);
    assertTrue(kafka.history().isEmpty());
    assertTrue(commit(Set.of(100L, 101L, 102L)));
    assertEquals(2, kafka.history().size());
    assertEquals(6, kafka.consumerGroupOffsetsHistory().get(0).get("jobs/1").values().iterator().next().offset());
  }

  @Test
  void aBatchWithoutRowsWritesNothing() {
    assertFalse(commit(Set.of(100L)));
    assertFalse(kafka.transactionInFlight());
    assertEquals(0, kafka.commitCount());
  }

  @Test
  void rowsOfAnAttemptThatDidNotFinishAreNotCommitted() {
    write(0, 100);
    write(1, 101);
    assertThrows(RetryableSinkException.class, () -> commit(Set.of(100L)));
    producer.abort();
    assertTrue(kafka.transactionAborted());
    assertTrue(kafka.history().isEmpty());
  }

  @Test
  void aSecondAttemptAfterRowsOfTheFirstEndsTheBatch() {
    write(0, 100);
    assertThrows(RetryableSinkException.class, () -> transaction.join(0, 200));
    assertThrows(RetryableSinkException.class, () -> commit(Set.of(100L, 200L)));
    assertEquals(0, kafka.commitCount());
  }

  @Test
  void aSecondAttemptIsWelcomeWhereTheFirstHadNoRow() {
    write(0, 200);
    assertTrue(commit(Set.of(200L)));
  }

  @Test
  void anAttemptThatIsLateWritesNothing() {
    write(0, 100);
    assertTrue(commit(Set.of(100L)));
    assertThrows(RetryableSinkException.class, () -> transaction.join(1, 300));
  }

  @Test
  void aFencedProducerSaysSo() {
    write(0, 100);
    kafka.fenceProducer();
    FencedSinkException fenced =
        assertThrows(FencedSinkException.class, () -> commit(Set.of(100L)));
    assertTrue(fenced.getMessage().startsWith("FENCED"), fenced.getMessage());
  }

  @Test
  void anAbortRunsToItsEndInAThreadThatIsInterrupted() {
    write(0, 100);
    Thread.currentThread().interrupt();
    producer.abort();
    assertTrue(Thread.interrupted(), "the interrupt is kept");
    assertTrue(kafka.transactionAborted());
    assertTrue(kafka.closed());
  }

  private void write(int partition, long attempt) {
    transaction.join(partition, attempt);
    transaction.send(new ProducerRecord<>("t", "row".getBytes(StandardCharsets.UTF_8)));
  }

  private boolean commit(Set<Long> finished) {
    return transaction.commit(MARKERS, finished, rows -> Optional.empty());
  }
}
