package io.penstock.spark42;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class QuiesceOrderTest {
  private static final long NOW = 1_000_000_000_000L;
  private static final OptionalLong NOWHERE = OptionalLong.empty();
  private static final QuiesceOrder HOLD = QuiesceOrder.at(NOWHERE, NOW);
  private static final QuiesceOrder LEVEL = QuiesceOrder.at(OptionalLong.of(5_000), NOW);

  @Test
  void aHeldQueryGetsNoRowsWhereverItIs() {
    assertTrue(HOLD.isReached(0, List.of(new ReadState())));
    assertEquals(Long.MAX_VALUE, HOLD.watermarkBound());
  }

  @Test
  void aQueryToBeLevelledReadsUpToTheWatermarkAndNotBeyond() {
    assertFalse(LEVEL.isReached(4_999, List.of(new ReadState())));
    assertTrue(LEVEL.isReached(5_000, List.of(new ReadState())));
    assertEquals(5_000, LEVEL.watermarkBound());
  }

  @Test
  void orToTheEndOfAllItsInputsEachOnceSinceTheOrder() {
    ReadState first = took(NOW);
    assertFalse(LEVEL.isReached(0, List.of(first, new ReadState())));
    assertFalse(LEVEL.isReached(0, List.of(first, took(NOW - 1))));
    first.plan();
    assertTrue(LEVEL.isReached(0, List.of(first, took(NOW + 1))), "what came in since does not matter");
    assertTrue(LEVEL.isCaughtUp(List.of(first, took(NOW + 1))));
  }

  @Test
  void aQueryThatIsToBeStoppedReadsNothingMoreAndKeepsItsLimit() {
    assertTrue(LEVEL.forStop().isReached(0, List.of(new ReadState())));
    assertEquals(5_000, LEVEL.forStop().watermarkBound());
  }

  @Test
  void aHeldQueryIsCaughtUpWhenItsLastBatchTookAllShortlyBefore() {
    ReadState behind = took(NOW - 1);
    behind.plan();
    assertFalse(HOLD.isCaughtUp(List.of(took(NOW), behind)), "it left rows");
    assertFalse(HOLD.isCaughtUp(List.of(new ReadState())), "unknown is not caught up");
    assertFalse(HOLD.isCaughtUp(List.of(took(NOW - QuiesceOrder.FRESH_NANOS - 1))), "in a long batch much came in");
    assertTrue(HOLD.isCaughtUp(List.of(took(NOW), took(NOW - QuiesceOrder.FRESH_NANOS))));
  }

  @Test
  void anOrderStandsFromTheStartUntilItIsOver() {
    UUID run = UUID.randomUUID();
    QuiesceOrders.giveAtStart("j/0", OptionalLong.of(7));
    QuiesceOrder given = QuiesceOrders.of(run, "j/0").orElseThrow();
    QuiesceOrders.hasStarted("j/0", run);
    assertEquals(Optional.empty(), QuiesceOrders.of(UUID.randomUUID(), "j/0"), "a later run has its own");
    QuiesceOrders.give(run, OptionalLong.of(7));
    assertEquals(Optional.of(given), QuiesceOrders.of(run, "j/0"), "the same order is not a new one");
    QuiesceOrders.give(run, NOWHERE);
    assertEquals(NOWHERE, QuiesceOrders.of(run, "j/0").orElseThrow().levelMillis());
    QuiesceOrders.release(run);
    assertEquals(Optional.empty(), QuiesceOrders.of(run, "j/0"));
  }

  private static ReadState took(long nanos) {
    ReadState input = new ReadState();
    input.tookAll(nanos);
    return input;
  }
}
