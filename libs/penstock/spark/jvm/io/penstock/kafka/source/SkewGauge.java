package io.penstock.kafka.source;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Measures the skew every few batches and keeps the last value; warns when it comes near the watermark delay. */
final class SkewGauge {
  private static final Logger LOG = LoggerFactory.getLogger(SkewGauge.class);
  private static final double WARNING_SHARE = 0.5;

  private final SkewMeter meter;
  private final long everyBatches;
  private final OptionalLong warningMillis;
  private long batches;
  private OptionalLong millis = OptionalLong.empty();

  /** {@code everyBatches} 0: never. */
  SkewGauge(SkewMeter meter, long everyBatches, OptionalLong warningMillis) {
    this.meter = meter;
    this.everyBatches = everyBatches;
    this.warningMillis = warningMillis;
  }

  boolean isOn() {
    return everyBatches > 0;
  }

  OptionalLong millis() {
    return millis;
  }

  void afterPlan(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends, Map<TopicPartition, Long> latest) {
    if (ends.equals(latest)) {
      millis = OptionalLong.of(0);
      return;
    }
    if (!ends.equals(starts) && batches++ % everyBatches == 0) {
      millis = meter.measure(starts, ends, latest);
      warn();
    }
  }

  private void warn() {
    if (millis.isPresent() && warningMillis.isPresent()
        && millis.getAsLong() > WARNING_SHARE * warningMillis.getAsLong()) {
      LOG.warn(
          "event times of partitions lie {} ms apart, of the {} ms that rows may be late", millis.getAsLong(),
          warningMillis.getAsLong());
    }
  }
}
