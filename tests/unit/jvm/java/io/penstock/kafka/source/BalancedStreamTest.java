package io.penstock.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class BalancedStreamTest {
  @Test
  void theSameOffsetInAnotherTextDiffersAndReadsAlike() {
    String once = BalancedStream.otherTextOf("{\"t\":{\"0\":1}}");
    assertEquals("{\"t\":{\"0\":1}} ", once);
    assertEquals("{\"t\":{\"0\":1}}", BalancedStream.otherTextOf(once));
  }
}
