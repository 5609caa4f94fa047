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
  private static final long INTERVAL = 3_000_000_000L;
  private static final QuiesceOrder HOLD = QuiesceOrder.at(NOWHERE, INTERVAL, NOW);
  private static final QuiesceOrder LEVEL = QuiesceOrder.at(OptionalLong.of(5_000), INTERVAL, NOW);
  private static final QuiesceOrder CUT = LEVEL.withCuts("{}");

  @Test
  void aHeldQueryGetsNoRowsWhereverItIs() {
    for (QuiesceOrder order : List.of(HOLD, QuiesceOrder.at(OptionalLong.of(0), INTERVAL, NOW))) {
      assertTrue(order.isReached(List.of(new ReadState())));
      assertEquals(Optional.empty(), order.readsTo());
    }
  }

  @Test
  void aQueryToBeLevelledReadsToItsCutsOnceTheyAreKnown() {
    ReadState input = new ReadState();
    assertEquals(Optional.empty(), LEVEL.readsTo());
    assertFalse(LEVEL.isReached(List.of(input)));
    assertEquals(Optional.of("{}"), CUT.readsTo());
    input.tookAllTo("of another order");
    assertFalse(CUT.isReached(List.of(input)));
    input.tookAllTo("{}");
    assertTrue(CUT.isReached(List.of(input)));
    assertFalse(CUT.isReached(List.of(input, new ReadState())));
  }

  @Test
  void aQueryThatIsToBeStoppedReadsNothingMore() {
    assertTrue(CUT.forStop().isReached(List.of(new ReadState())));
    assertEquals(Optional.empty(), CUT.forStop().readsTo());
  }

  @Test
  void aHeldQueryIsCaughtUpWhenItsLastBatchTookAllShortlyBefore() {
    ReadState behind = took(NOW - 1);
    behind.plan();
    assertFalse(HOLD.isCaughtUp(List.of(took(NOW), behind), 0), "it left rows");
    assertFalse(HOLD.isCaughtUp(List.of(new ReadState()), 0), "unknown is not caught up");
    ReadState longAgo = took(NOW - QuiesceOrder.FRESH_NANOS - 1);
    assertFalse(HOLD.isCaughtUp(List.of(longAgo), 0), "much may have come in since");
    assertTrue(HOLD.isCaughtUp(List.of(took(NOW), took(NOW - QuiesceOrder.FRESH_NANOS)), 0));
    assertTrue(HOLD.isCaughtUp(List.of(longAgo), QuiesceOrder.FRESH_NANOS - INTERVAL + 1), "it could not look earlier");
    ReadState tooLongAgo = took(NOW - QuiesceOrder.LONGEST_FRESH_NANOS - 1);
    assertFalse(HOLD.isCaughtUp(List.of(tooLongAgo), 10 * QuiesceOrder.LONGEST_FRESH_NANOS), "too much for after a stop");
  }

  @Test
  void aLevelledQueryIsCaughtUpWhenItHasTakenAllSinceTheOrder() {
    assertFalse(CUT.isCaughtUp(List.of(took(NOW), took(NOW - 1)), QuiesceOrder.FRESH_NANOS));
    assertTrue(CUT.isCaughtUp(List.of(took(NOW)), 0));
  }

  @Test
  void anOrderStandsFromTheStartUntilItIsOver() {
    UUID run = UUID.randomUUID();
    QuiesceOrders.giveAtStart("j/0", OptionalLong.of(7), INTERVAL);
    QuiesceOrder given = QuiesceOrders.of(run, "j/0").orElseThrow();
    QuiesceOrders.hasStarted("j/0", run);
    assertEquals(Optional.empty(), QuiesceOrders.of(UUID.randomUUID(), "j/0"), "a later run has its own");
    QuiesceOrders.give(run, OptionalLong.of(7), INTERVAL);
    assertEquals(Optional.of(given), QuiesceOrders.of(run, "j/0"), "the same order is not a new one");
    QuiesceOrders.readTo(run, 8, "cuts of another level");
    assertEquals(Optional.of(given), QuiesceOrders.of(run, "j/0"));
    QuiesceOrders.readTo(run, 7, "cuts");
    assertEquals(Optional.of("cuts"), QuiesceOrders.of(run, "j/0").orElseThrow().readsTo());
    QuiesceOrders.give(run, NOWHERE, INTERVAL);
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
