package io.penstock.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PositionsTest {
  private static final String NAME = "stream:orders#1";
  private static final List<Integer> GROUPS = List.of(2, 3, 4);
  private static final OptionalLong NO_STOP = OptionalLong.empty();

  private static Positions positions(long two, long three, long four) {
    return Positions.parse(
        String.format("{\"%s\":{\"2\":%d,\"3\":%d,\"4\":%d}}", NAME, two, three, four), NAME, GROUPS);
  }

  @Test
  void aBatchHasTheSectionOfThoseThatAreBehind() {
    Positions from = positions(7, 5, 5);
    assertEquals(OptionalLong.of(5), from.section(NO_STOP));
    Positions to = from.after(5);
    assertEquals(positions(7, 6, 6), to);
    assertEquals(List.of(5L), from.sections(to).boxed().toList());
    assertEquals(Set.of(3, 4), from.keyGroups(5, to));
  }

  @Test
  void nothingIsReadFromTheStopOn() {
    assertEquals(OptionalLong.of(5), positions(7, 5, 5).section(OptionalLong.of(6)));
    assertEquals(OptionalLong.empty(), positions(7, 6, 6).section(OptionalLong.of(6)));
  }

  @Test
  void aRepeatedBatchOfSeveralSectionsHasEachForItsKeyGroups() {
    Positions from = positions(1, 2, 4);
    Positions to = positions(3, 3, 4);
    assertEquals(List.of(1L, 2L), from.sections(to).boxed().toList());
    assertEquals(Set.of(2), from.keyGroups(1, to));
    assertEquals(Set.of(2, 3), from.keyGroups(2, to));
  }

  @Test
  void theTextIsThatOfKafkasOffsets() {
    assertEquals("{\"stream:orders#1\":{\"2\":1,\"3\":1,\"4\":1}}", Positions.at(NAME, GROUPS, 1).json());
  }

  @ParameterizedTest
  @ValueSource(strings = {"{\"stream:orders#2\":{\"2\":1,\"3\":1,\"4\":1}}", "{\"stream:orders#1\":{\"2\":1,\"3\":1}}",
      "{\"logOffset\":3}", "17", "{}"})
  void otherOffsetsAreRefused(String text) {
    String refusal =
        assertThrows(IllegalStateException.class, () -> Positions.parse(text, NAME, GROUPS)).getMessage();
    assertTrue(refusal.endsWith("not " + text), refusal);
  }
}
