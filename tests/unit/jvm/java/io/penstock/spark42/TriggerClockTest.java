package io.penstock.spark42;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.util.Clock;
import org.junit.jupiter.api.Test;

class TriggerClockTest {
  private static final long HOUR_MILLIS = 3_600_000;

  private final CountDownLatch waits = new CountDownLatch(1);
  private final AtomicBoolean readsOn = new AtomicBoolean();
  private final TriggerClock clock = new TriggerClock(() -> {
    waits.countDown();
    return readsOn.get();
  });

  @Test
  void waitsForItsTime() {
    long target = clock.getTimeMillis() + 30;
    assertTrue(clock.waitTillTime(target) >= target);
  }

  @Test
  void aQueryThatReadsOnDoesNotWait() {
    readsOn.set(true);
    long target = clock.getTimeMillis() + HOUR_MILLIS;
    assertTrue(clock.waitTillTime(target) < target);
  }

  @Test
  void aQueryThatWaitsReadsOnOnceItsCutsAreKnown() throws Exception {
    UUID run = UUID.randomUUID();
    QuiesceOrders.give(run, OptionalLong.of(5_000), 1);
    long target = clock.getTimeMillis() + HOUR_MILLIS;
    CompletableFuture<Long> ended = CompletableFuture.supplyAsync(() -> clock.waitTillTime(target));
    waits.await();
    QuiesceOrders.readTo(UUID.randomUUID(), 5_000, "those of another");
    assertFalse(ended.isDone());
    readsOn.set(true);
    QuiesceOrders.readTo(run, 5_000, "{}");
    assertTrue(ended.get() < target);
    QuiesceOrders.release(run);
  }

  @Test
  void aQueryWhoseOrderIsOverIsAskedAgain() throws Exception {
    UUID run = UUID.randomUUID();
    QuiesceOrders.give(run, OptionalLong.empty(), 1);
    long target = clock.getTimeMillis() + HOUR_MILLIS;
    CompletableFuture<Long> ended = CompletableFuture.supplyAsync(() -> clock.waitTillTime(target));
    waits.await();
    readsOn.set(true);
    QuiesceOrders.release(run);
    assertTrue(ended.get() < target);
  }

  @Test
  void anInterruptionIsRaisedAsItIsForSpark() {
    Thread.currentThread().interrupt();
    assertThrows(InterruptedException.class, () -> clock.waitTillTime(clock.getTimeMillis() + HOUR_MILLIS));
  }

  @Test
  void theClockOfTriggersCanBeSet() throws NoSuchFieldException {
    assertEquals(Clock.class, TriggerClock.CLOCK.type());
  }
}
