package io.penstock.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class RewrittenOffsetTest {
  @Test
  void theSameOffsetInAnotherTextDiffersAndReadsAlike() {
    RewrittenOffset once = RewrittenOffset.differentFrom("{\"t\":{\"0\":1}}");
    assertEquals("{\"t\":{\"0\":1}} ", once.json());
    assertEquals("{\"t\":{\"0\":1}}", RewrittenOffset.differentFrom(once.json()).json());
    assertEquals(once, RewrittenOffset.withText(once.json()));
  }
}
