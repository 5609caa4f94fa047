package io.penstock.kafka.source;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The ends of a batch; {@code horizonMillis} is the event time up to which all partitions are read. */
record Plan(boolean limited, long horizonMillis, Map<TopicPartition, Long> ends) {
  static final long NO_HORIZON = Long.MIN_VALUE;

  static Plan unlimited(Map<TopicPartition, Long> ends) {
    return new Plan(false, NO_HORIZON, ends);
  }

  boolean hasHorizon() {
    return horizonMillis != NO_HORIZON;
  }
}
