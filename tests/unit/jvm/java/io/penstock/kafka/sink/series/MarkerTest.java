package io.penstock.kafka.sink.series;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.util.List;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MarkerTest {
  @Test
  void theTextInKafkaIsTheMarkerAgain() {
    Marker marker = new Marker("3f2a", 41, "ab01", 8);
    assertEquals(new OffsetAndMetadata(42, "penstock-1;3f2a;41;ab01;8"), marker.toOffset());
    assertEquals(marker, Marker.of("group", marker.toOffset()));
  }

  @Test
  void noBatchYetIsOffsetZero() {
    Marker none = Marker.none("3f2a").withPartitions(3);
    assertEquals(0, none.toOffset().offset());
    assertEquals(none, Marker.of("group", none.toOffset()));
  }

  @Test
  void theHashTellsOffsetsApart() {
    assertEquals(hash("{}", "x"), hash("{}", "x"));
    assertEquals(32, hash().length());
    assertNotEquals(hash("ab", "c"), hash("a", "bc"));
    assertNotEquals(hash("a", "b"), hash("b", "a"));
    assertNotEquals(hash("a", ""), hash("a"));
  }

  /** The hash is in the markers of running series: another value would refuse their next batch. */
  @Test
  void theHashStaysTheSame() {
    assertEquals("c9dda264e2105015a55fd4605ea7665a", hash("{\"t\":{\"0\":5}}", ""));
  }

  private static String hash(String... endOffsets) {
    return Marker.ofBatch("3f2a", 41, List.of(endOffsets), 0).offsetsHash();
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "42|''", "42|penstock-2;q;41;h;1", "42|penstock-1;q;41;h", "42|penstock-1;q;x;h;1", "42|penstock-1;q;41;h;x",
    "43|penstock-1;q;41;h;1", "42|penstock-1;q;41;h;1;1"})
  void whatSomebodyElseCommittedIsNotTakenForNoMarker(long offset, String metadata) {
    OffsetAndMetadata foreign = new OffsetAndMetadata(offset, metadata);
    BrokenSinkException error = assertThrows(BrokenSinkException.class, () -> Marker.of("readers", foreign));
    assertTrue(error.getMessage().contains("consumer group readers was not written by this sink"), error.getMessage());
  }
}
