package io.penstock.kafka.sink.options;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.sink.options.SinkOptions.TransactionScope;
import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SinkOptionsTest {
  @Test
  void whatIsLeftOutHasASafeValue() {
    SinkOptions options = options("local[2]", Map.of());
    assertEquals("penstock-query", options.prefix());
    assertEquals(Duration.ofMinutes(15), options.transactionTimeout());
    assertEquals(Duration.ofDays(1), options.markerRefresh());
    assertEquals(Duration.ofMinutes(10), options.producerIdle());
  }

  @Test
  void theProducerHasTheSettingsOfTheUserAndItsOwn() {
    SinkOptions options = options("local", Map.of("Kafka.Linger.ms", "5", "kafka.transaction.timeout.ms", "9000"));
    Map<String, Object> producer = options.producer("jobs/1#3");
    assertEquals("5", producer.get("linger.ms"));
    assertEquals("jobs/1#3", producer.get("transactional.id"));
    assertEquals(Duration.ofSeconds(9), options.transactionTimeout());
    assertFalse(SinkOptions.admin(options.kafka()).containsKey("linger.ms"));
    assertEquals("b:1", SinkOptions.admin(options.kafka()).get("bootstrap.servers"));
  }

  @ParameterizedTest
  @CsvSource({
    "local,,BATCH", "local[*],,BATCH", "'local[2,3]',,BATCH", "local[2],Partition,PARTITION", "local[2],batch,BATCH",
    "'local-cluster[2,1,900]',,PARTITION", "spark://h:7077,,PARTITION", "yarn,partition,PARTITION"})
  void theScopeFitsTheMaster(String master, String option, TransactionScope expected) {
    assertEquals(expected, TransactionScope.of(option, master));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "topic| |option topic: is required",
    "kafka.bootstrap.servers| |option kafka.bootstrap.servers: is required",
    "transactionalIdPrefix|' '|option transactionalIdPrefix: must not be empty",
    "transactionScope|row|option transactionScope: must be one of batch, partition, not row",
    "producerIdleSeconds|soon|option producerIdleSeconds: must be a whole number of seconds from 1 on, not soon",
    "markerRefreshSeconds|0|option markerRefreshSeconds: must be a whole number of seconds from 1 on, not 0",
    "kafka.transactional.id|mine|option kafka.transactional.id: is set by the sink itself",
    "kafka.enable.idempotence|false|option kafka.enable.idempotence: is set by the sink itself",
    "kafka.value.serializer|x|option kafka.value.serializer: is set by the sink itself",
    "kafka.acks|1|option kafka.acks: exactly once needs all, not 1",
    "kafka.transaction.timeout.ms|1m|option kafka.transaction.timeout.ms: must be milliseconds, not 1m"})
  void whatCannotBeIsRefusedByName(String name, String value, String message) {
    Map<String, String> changed = new HashMap<>();
    changed.put(name, value);
    BrokenSinkException error = assertThrows(BrokenSinkException.class, () -> options("local", changed));
    assertTrue(error.getMessage().startsWith(message), error.getMessage());
  }

  @Test
  void oneTransactionForAllIsRefusedOnACluster() {
    BrokenSinkException error =
        assertThrows(BrokenSinkException.class, () -> TransactionScope.of("batch", "spark://h:7077"));
    assertTrue(error.getMessage().contains("transactionScope: batch needs the executors inside the driver"));
  }

  /** A value of null takes the option out. */
  private static SinkOptions options(String master, Map<String, String> changed) {
    Map<String, String> all = new HashMap<>(Map.of("topic", "t", "kafka.bootstrap.servers", "b:1"));
    changed.forEach((name, value) -> {
      if (value == null) {
        all.remove(name);
      } else {
        all.put(name, value);
      }
    });
    return SinkOptions.of(new CaseInsensitiveStringMap(all), "query", master);
  }
}
