package io.penstock.kafka.source.skew;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures the event-time skew every few batches, keeps the last value, and warns when it nears the watermark delay.
 */
public final class SkewGauge {
  private static final Logger LOG = LoggerFactory.getLogger(SkewGauge.class);
  private static final double WARNING_SHARE = 0.5;

  private final SkewMeter meter;
  private final long everyBatches;
  private final OptionalLong warningMillis;
  private long batches;
  private OptionalLong millis = OptionalLong.empty();

  /** With {@code everyBatches} 0 the skew is never measured. */
  public SkewGauge(SkewMeter meter, long everyBatches, OptionalLong warningMillis) {
    this.meter = meter;
    this.everyBatches = everyBatches;
    this.warningMillis = warningMillis;
  }

  public boolean isOn() {
    return everyBatches > 0;
  }

  public OptionalLong millis() {
    return millis;
  }

  public void afterPlan(
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
          "event times of partitions differ by {} ms; rows may be {} ms late at most", millis.getAsLong(),
          warningMillis.getAsLong());
    }
  }
}
