package io.penstock.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.LongStream;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.junit.jupiter.api.Test;

/** What goes on while nothing comes, how far partitions lie apart, and Spark's limits taken apart. */
class WatermarkAndSkewTest {
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
    assertEquals(OptionalLong.of(20_000), idle.next(800, 20_000));
  }

  @Test
  void skewIsTheNewestReadLessTheOldestLeft() {
    MadeUpLogs logs = new MadeUpLogs()
        .with(0, LongStream.range(0, 1000).map(at -> at * 1000))
        .with(1, LongStream.range(0, 100).map(at -> at * 10_000));
    SkewMeter meter = new SkewMeter(logs);
    assertEquals(OptionalLong.of(399_000 - 100_000), meter.measure(logs.starts(), ends(400, 10), logs.ends()));
    assertEquals(OptionalLong.of(0), meter.measure(ends(400, 10), ends(400, 40), logs.ends()));
    assertEquals(OptionalLong.of(0), meter.measure(ends(400, 10), logs.ends(), logs.ends()));
    assertEquals(NONE, meter.measure(ends(400, 10), ends(400, 10), logs.ends()));
  }

  @Test
  void theGaugeLooksEveryFewBatchesAndKnowsWhenNothingIsLeft() {
    MadeUpLogs logs = new MadeUpLogs().with(0, LongStream.range(0, 100).map(at -> at)).with(1, LongStream.range(0, 9));
    SkewGauge gauge = new SkewGauge(new SkewMeter(logs), 3, OptionalLong.of(10));
    for (int batch = 0; batch < 6; batch++) {
      gauge.afterPlan(ends(batch, 0), ends(batch + 1, 0), logs.ends());
    }
    assertEquals(4, logs.runLookups);
    assertEquals(OptionalLong.of(3), gauge.millis());
    gauge.afterPlan(ends(6, 0), logs.ends(), logs.ends());
    assertEquals(OptionalLong.of(0), gauge.millis());
    assertFalse(new SkewGauge(new SkewMeter(logs), 0, NONE).isOn());
  }

  @Test
  void limitsAreTakenApartAndPutTogether() {
    ReadLimit rows = ReadLimit.maxRows(50);
    ReadLimit least = ReadLimit.minRows(5, 100);
    ReadLimit all = ReadLimits.with(ReadLimit.compositeLimit(new ReadLimit[] {least, rows}), OptionalLong.of(900));
    assertEquals(new ReadLimits(OptionalLong.of(50), OptionalLong.of(900), least), ReadLimits.of(all));
    assertEquals(new ReadLimits(NONE, OptionalLong.of(7), ReadLimit.allAvailable()),
        ReadLimits.of(ReadLimits.with(ReadLimit.allAvailable(), OptionalLong.of(7))));
    assertEquals(rows, ReadLimits.with(rows, NONE));
    assertEquals(NONE, ReadLimits.of(ReadLimit.allAvailable()).maxRows());
  }

  private static Map<TopicPartition, Long> ends(long first, long second) {
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    ends.put(MadeUpLogs.partition(0), first);
    ends.put(MadeUpLogs.partition(1), second);
    return ends;
  }
}
