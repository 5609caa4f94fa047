package io.penstock.kafka.source;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Bounded reading: the offsets at which a query stops reading, exactly. */
record StopOffsets(Map<TopicPartition, Long> offsets) {
  /**
   * The ends up to which may be read now: the stop where the log is longer. Raises IllegalStateException for a
   * partition that has no stop, or one that was read beyond its stop already.
   */
  Map<TopicPartition, Long> bound(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Long> bounded = new LinkedHashMap<>();
    ends.forEach((partition, end) -> bounded.put(partition, Math.min(end, stopOf(partition))));
    starts.forEach(this::requireNotBeyond);
    return bounded;
  }

  private long stopOf(TopicPartition partition) {
    Long stop = offsets.get(partition);
    if (stop == null) {
      throw new IllegalStateException(
          "option stopAtOffsets: every partition that is read must be named, but " + partition + " is not");
    }
    return stop;
  }

  private void requireNotBeyond(TopicPartition partition, long start) {
    long stop = stopOf(partition);
    if (start > stop) {
      throw new IllegalStateException(
          "option stopAtOffsets: must not lie before what was read: "
              + ("the checkpoint has read " + partition + " up to " + start + ", which is beyond " + stop));
    }
  }
}
