package io.penstock.kafka.source.idle;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class IdleWatermarkTest {
  private static final OptionalLong NONE = OptionalLong.empty();

  @Test
  void theWatermarkGoesOnInStepsOfTheTimeout() {
    IdleWatermark idle = new IdleWatermark(100);
    assertEquals(NONE, idle.next(0, 5_000));
    assertEquals(NONE, idle.next(99, 5_000));
    assertEquals(OptionalLong.of(5_130), idle.next(130, 5_000));
    assertEquals(NONE, idle.next(229, 5_130));
    assertEquals(OptionalLong.of(5_230), idle.next(230, 5_130));
  }

  @Test
  void rowsStartItAnew() {
    IdleWatermark idle = new IdleWatermark(100);
    assertEquals(OptionalLong.of(5_150), idle.next(150, 5_000));
    assertEquals(NONE, idle.next(20, 7_000));
    assertEquals(OptionalLong.of(7_100), idle.next(100, 7_000));
  }

  @Test
  void itNeverGoesBackAndWithoutRowsThereIsNone() {
    IdleWatermark idle = new IdleWatermark(100);
    assertEquals(NONE, idle.next(500, 0));
    assertEquals(OptionalLong.of(9_000 + 600), idle.next(600, 9_000));
    assertEquals(NONE, idle.next(800, 20_000));
  }

  @Test
  void itGoesOnFromWhereProducersLetItGo() {
    IdleWatermark idle = new IdleWatermark(100);
    assertEquals(OptionalLong.of(5_100), idle.next(100, 5_000));
    assertEquals(NONE, idle.next(150, 60_000));
    assertEquals(OptionalLong.of(60_110), idle.next(260, 60_000));
  }
}
