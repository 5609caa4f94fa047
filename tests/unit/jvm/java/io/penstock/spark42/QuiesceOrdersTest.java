package io.penstock.spark42;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class QuiesceOrdersTest {
  private static final OptionalLong LEVEL = OptionalLong.of(5_000);
  private static final int TURNS = 400;

  private final UUID run = UUID.randomUUID();
  private final String name = run.toString();

  @Test
  void anOrderThatCameToTheRunMeanwhileIsNotReplacedByThatAtTheStart() {
    QuiesceOrders.giveAtStart(name, LEVEL, 1);
    QuiesceOrders.give(run, OptionalLong.of(6_000), 1);
    QuiesceOrders.hasStarted(name, run);
    assertEquals(OptionalLong.of(6_000), level());
  }

  @Test
  void aStartThatFailedLeavesNoOrderToTheNextOne() {
    QuiesceOrders.giveAtStart(name, LEVEL, 1);
    QuiesceOrders.forgetStart(name);
    QuiesceOrders.hasStarted(name, run);
    assertEquals(Optional.empty(), QuiesceOrders.of(run, name));
  }

  @Test
  void whoeverLooksWhileAQueryStartsSeesItsOrder() {
    for (int turn = 0; turn < TURNS; turn++) {
      UUID each = UUID.randomUUID();
      QuiesceOrders.giveAtStart(each.toString(), LEVEL, 1);
      CompletableFuture<Void> starts =
          CompletableFuture.runAsync(() -> QuiesceOrders.hasStarted(each.toString(), each));
      do {
        assertTrue(QuiesceOrders.of(each, each.toString()).isPresent());
      } while (!starts.isDone());
      QuiesceOrders.release(each);
    }
  }

  private OptionalLong level() {
    return QuiesceOrders.of(run, name).orElseThrow().levelMillis();
  }
}
