package io.penstock.kafka.sink.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class UninterruptedTest {
  private final AtomicInteger calls = new AtomicInteger();

  @AfterEach
  void clearTheFlag() {
    Thread.interrupted();
  }

  @Test
  void aStepRunsWithoutTheInterruptAndTheThreadKeepsIt() {
    Thread.currentThread().interrupt();
    Uninterrupted.run(() -> assertFalse(Thread.currentThread().isInterrupted()));
    assertTrue(Thread.currentThread().isInterrupted());
  }

  @Test
  void aStepThatIsInterruptedIsRepeatedWithoutTheInterrupt() {
    Uninterrupted.run(() -> {
      assertFalse(Thread.currentThread().isInterrupted());
      if (calls.incrementAndGet() < 3) {
        throw new InterruptException("stop()");
      }
    });
    assertEquals(3, calls.get());
    assertTrue(Thread.currentThread().isInterrupted());
  }

  @Test
  void timeoutsAreRepeatedThrice() {
    assertThrows(TimeoutException.class, () -> Uninterrupted.run(this::timeOut));
    assertEquals(3, calls.get());
    assertFalse(Thread.currentThread().isInterrupted());
  }

  @Test
  void aStopDoesNotWaitForOneTimeoutAfterTheOther() {
    Thread.currentThread().interrupt();
    assertThrows(TimeoutException.class, () -> Uninterrupted.run(this::timeOut));
    assertEquals(1, calls.get());
  }

  private void timeOut() {
    calls.incrementAndGet();
    throw new TimeoutException("60 s");
  }
}
