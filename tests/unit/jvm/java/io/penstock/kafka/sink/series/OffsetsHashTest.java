package io.penstock.kafka.sink.series;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class OffsetsHashTest {
  @Test
  void theHashTellsOffsetsApart() {
    assertEquals(OffsetsHash.of(List.of("{}", "x")), OffsetsHash.of(List.of("{}", "x")));
    assertEquals(32, OffsetsHash.of(List.of()).length());
    assertNotEquals(OffsetsHash.of(List.of("ab", "c")), OffsetsHash.of(List.of("a", "bc")));
    assertNotEquals(OffsetsHash.of(List.of("a", "b")), OffsetsHash.of(List.of("b", "a")));
    assertNotEquals(OffsetsHash.of(List.of("a", "")), OffsetsHash.of(List.of("a")));
  }

  /** The hash is in the markers of running series: another value would refuse their next batch. */
  @Test
  void theHashStaysTheSame() {
    assertEquals("c9dda264e2105015a55fd4605ea7665a", OffsetsHash.of(List.of("{\"t\":{\"0\":5}}", "")));
  }
}
