package io.penstock.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.junit.jupiter.api.Test;

class NoteNameTest {
  @Test
  void aNameIsReadAsItWasWritten() {
    assertEquals("7-2.10", NoteName.of(7, "2.10").text());
    assertEquals(Optional.of(NoteName.of(7, "2.10")), NoteName.parse("7-2.10"));
    assertEquals("7", NoteName.of(7, "").text());
    assertEquals(Optional.of(NoteName.of(7, "")), NoteName.parse("7"));
    for (String other : new String[] {".7-2.1.crc", "7-2", "7-2.1.tmp", "a", ""}) {
      assertEquals(Optional.empty(), NoteName.parse(other), other);
    }
    assertThrows(IllegalArgumentException.class, () -> NoteName.of(7, "two"));
  }

  @Test
  void notesOfEarlierOwnersAndBatchesAreReplacedAndThoseOfNewerOwnersAreNot() {
    NoteName own = NoteName.of(7, "2.10");
    for (String replaced : new String[] {"6-2.10", "9-2.9", "9-1.11", "9"}) {
      assertTrue(NoteName.parse(replaced).orElseThrow().isReplacedBy(own), replaced);
    }
    for (String kept : new String[] {"7-2.10", "8-2.10", "6-2.11", "6-3.1"}) {
      assertFalse(NoteName.parse(kept).orElseThrow().isReplacedBy(own), kept);
    }
  }
}
