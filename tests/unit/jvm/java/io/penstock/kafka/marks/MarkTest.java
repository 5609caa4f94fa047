package io.penstock.kafka.marks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class MarkTest {
  private static final Mark.Producer PRODUCER = new Mark.Producer("jobs", 3, 1, 2);

  @Test
  void aMarkIsReadAsItWasWritten() {
    List<Mark> marks = List.of(
        new Mark(PRODUCER, OptionalLong.of(1_700_000_000_000L), Mark.UNREAD, false, Map.of(0, 5L, 11, 7L)),
        new Mark(PRODUCER, OptionalLong.empty(), 17, false, Map.of()),
        new Mark(PRODUCER, OptionalLong.of(0), Mark.UNREAD, true, Map.of()));
    marks.forEach(mark -> assertEquals(mark, Mark.of(mark.toBytes())));
  }

  @Test
  void anotherTextIsRefused() {
    for (String text : List.of("", "{}", "no", "{\"g\":\"a\",\"gen\":1,\"i\":0,\"n\":1,\"at\":{\"x\":1}}")) {
      assertThrows(
          IllegalArgumentException.class, () -> Mark.of(text.getBytes(StandardCharsets.UTF_8)), text);
    }
  }
}
