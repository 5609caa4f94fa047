package io.penstock.kafka.marks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class ProducerMarksTest {
  private final ProducerMarks marks = new ProducerMarks();
  private long offset;

  @Test
  void theSlowestProducerIsTheBound() {
    add("a", 1, 0, 2, 100, Map.of());
    assertBound("a/1/1", ProducerMarks.NOTHING_YET);
    add("a", 1, 1, 2, 40, Map.of());
    assertBound("a/1/1", 40);
    add("a", 1, 1, 2, 120, Map.of());
    assertBound("a/0/1", 100);
  }

  @Test
  void producersWhoseFirstMarkIsHiddenAreWaitedForLikeASilentOne() {
    marks.setHidden(true);
    assertBound(ProducerMarks.UNKNOWN, ProducerMarks.NOTHING_YET);
    assertEquals(Optional.empty(), marks.bound(ProducerMarks.UNKNOWN::equals));
    assertTrue(marks.boundWhenIdle(name -> false).isPresent());
    marks.setHidden(false);
    assertEquals(Optional.empty(), marks.bound(name -> false));
  }

  @Test
  void aMarkCountsWhenTheRowsBeforeItAreRead() {
    add("a", 0, 0, 1, 40, Map.of(0, 10L));
    add("a", 0, 0, 1, 50, Map.of(0, 20L, 1, 5L));
    marks.advance(Map.of(0, 9L, 1, 9L));
    assertBound("a/0/0", ProducerMarks.NOTHING_YET);
    marks.advance(Map.of(0, 20L, 1, 4L));
    assertBound("a/0/0", 40);
    marks.advance(Map.of(0, 20L, 1, 5L));
    assertBound("a/0/0", 50);
  }

  @Test
  void rowsInPartitionsOfOtherReadersCountAsRead() {
    add("a", 0, 0, 1, 40, Map.of(3, 10L));
    marks.advance(Map.of(0, 0L));
    assertBound("a/0/0", 40);
  }

  @Test
  void aProducerThatHasReadAllHasComeAsFarAsTheOthersHad() {
    add("a", 0, 0, 2, 100, Map.of());
    add("a", 0, 1, 2, 40, Map.of());
    long seen = offset;
    add("a", 0, 0, 2, 200, Map.of());
    marks.add(offset++, new Mark(producer("a", 0, 1, 2), OptionalLong.of(40), seen, false, Map.of()));
    assertEquals(100, bound().orElseThrow().millis());
    assertEquals("a/0/0", marks.boundWhenIdle(name -> false).orElseThrow().producer());
  }

  @Test
  void aNewGenerationGoesOnWhereTheOldOneWas() {
    add("a", 1, 0, 2, 100, Map.of(0, 10L));
    add("a", 1, 1, 2, 60, Map.of(0, 12L));
    add("a", 2, 0, 3, 130, Map.of(0, 20L));
    marks.advance(Map.of(0, 10L));
    assertBound("a/1/1", ProducerMarks.NOTHING_YET);
    marks.advance(Map.of(0, 20L));
    assertEquals(60, bound().orElseThrow().millis());
    add("a", 2, 1, 3, 120, Map.of());
    add("a", 2, 2, 3, 110, Map.of());
    assertBound("a/2/2", 110);
  }

  @Test
  void producersWithoutEventTimeAreNamedAsLongAsTheyWrite() {
    add("a", 1, 0, 1, 100, Map.of());
    addWithoutTime("b", 1, 0, 2);
    assertBound("b/1/1", ProducerMarks.NOTHING_YET);
    addWithoutTime("b", 1, 1, 2);
    assertBound("a/0/1", 100);
    assertEquals(List.of("b/0/1", "b/1/1"), marks.withoutTime());
    add("b", 2, 0, 1, 90, Map.of());
    assertEquals(List.of(), marks.withoutTime());
    addWithoutTime("c", 1, 0, 1);
    assertEquals(List.of("c/0/1"), marks.withoutTime());
    end("c");
    assertEquals(List.of(), marks.withoutTime());
  }

  @Test
  void aGroupThatHasEndedHoldsBackNobodyOnceItsRowsAreRead() {
    end("b");
    add("a", 1, 0, 2, 100, Map.of());
    add("a", 1, 1, 2, 60, Map.of(0, 5L));
    add("b", 1, 0, 1, 110, Map.of());
    end("a");
    marks.advance(Map.of(0, 4L));
    assertBound("a/1/1", ProducerMarks.NOTHING_YET);
    marks.advance(Map.of(0, 5L));
    assertBound("b/0/1", 110);
  }

  @Test
  void aGroupThatBeginsAgainWaitsForAllItsProducers() {
    add("a", 1, 0, 2, 100, Map.of());
    add("a", 1, 1, 2, 60, Map.of());
    end("a");
    add("a", 1, 0, 2, 130, Map.of());
    assertBound("a/1/1", 60);
  }

  @Test
  void theEndOfAnOldGenerationIsNotThatOfANewerOne() {
    add("a", 1, 0, 1, 100, Map.of());
    add("a", 2, 0, 1, 120, Map.of());
    end("a");
    assertBound("a/0/2", 120);
  }

  @Test
  void aProducerWithoutEventTimeHoldsBackNobody() {
    add("a", 1, 0, 1, 100, Map.of());
    addWithoutTime("b", 0, 0, 1);
    assertBound("a/0/1", 100);
  }

  @Test
  void aLongBacklogIsThinnedOutAndStaysSafe() {
    for (int row = 1; row <= 100_000; row++) {
      add("a", 0, 0, 1, row, Map.of(0, (long) row));
    }
    marks.advance(Map.of(0, 50_000L));
    long millis = bound().orElseThrow().millis();
    assertTrue(millis <= 50_000 && millis > 49_000, "" + millis);
  }

  private void add(String group, int generation, int index, int count, long millis, Map<Integer, Long> ends) {
    Mark.Producer producer = producer(group, generation, index, count);
    marks.add(offset++, new Mark(producer, OptionalLong.of(millis), Mark.UNREAD, false, ends));
  }

  private void addWithoutTime(String group, int generation, int index, int count) {
    Mark.Producer producer = producer(group, generation, index, count);
    marks.add(offset++, new Mark(producer, OptionalLong.empty(), Mark.UNREAD, false, Map.of()));
  }

  private void end(String group) {
    Mark.Producer producer = producer(group, 1, 0, 1);
    marks.add(offset++, new Mark(producer, OptionalLong.empty(), Mark.UNREAD, true, Map.of()));
  }

  private static Mark.Producer producer(String group, int generation, int index, int count) {
    return new Mark.Producer(group, generation, index, count);
  }

  private Optional<ProducerMarks.Bound> bound() {
    marks.advance(Map.of(0, 0L));
    return marks.bound(name -> false);
  }

  private void assertBound(String producer, long millis) {
    ProducerMarks.Bound found = bound().orElseThrow();
    assertEquals(producer + " " + millis, found.producer() + " " + found.millis());
  }
}
