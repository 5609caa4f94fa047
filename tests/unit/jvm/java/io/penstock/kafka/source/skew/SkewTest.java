package io.penstock.kafka.source.skew;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.penstock.kafka.source.broker.MadeUpLogs;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.LongStream;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class SkewTest {
  private static final OptionalLong NONE = OptionalLong.empty();

  @Test
  void skewIsTheNewestReadLessTheOldestLeft() {
    MadeUpLogs logs = new MadeUpLogs()
        .with(0, LongStream.range(0, 1000).map(at -> at * 1000))
        .with(1, LongStream.range(0, 100).map(at -> at * 10_000));
    SkewGauge meter = new SkewGauge(logs, 0, NONE);
    assertEquals(OptionalLong.of(399_000 - 100_000), meter.measure(logs.starts(), ends(400, 10), logs.ends()));
    assertEquals(OptionalLong.of(0), meter.measure(ends(400, 10), ends(400, 40), logs.ends()));
    assertEquals(OptionalLong.of(0), meter.measure(ends(400, 10), logs.ends(), logs.ends()));
    assertEquals(NONE, meter.measure(ends(400, 10), ends(400, 10), logs.ends()));
  }

  @Test
  void theGaugeLooksEveryFewBatchesAndKnowsWhenNothingIsLeft() {
    MadeUpLogs logs = new MadeUpLogs().with(0, LongStream.range(0, 100).map(at -> at)).with(1, LongStream.range(0, 9));
    SkewGauge gauge = new SkewGauge(logs, 3, OptionalLong.of(10));
    for (int batch = 0; batch < 6; batch++) {
      gauge.afterPlan(ends(batch, 0), ends(batch + 1, 0), logs.ends());
    }
    assertEquals(4, logs.sampleLookups);
    assertEquals(OptionalLong.of(3), gauge.millis());
    gauge.afterPlan(ends(6, 0), logs.ends(), logs.ends());
    assertEquals(OptionalLong.of(0), gauge.millis());
    assertFalse(new SkewGauge(logs, 0, NONE).isOn());
  }

  private static Map<TopicPartition, Long> ends(long first, long second) {
    Map<TopicPartition, Long> ends = new LinkedHashMap<>();
    ends.put(MadeUpLogs.partition(0), first);
    ends.put(MadeUpLogs.partition(1), second);
    return ends;
  }
}
