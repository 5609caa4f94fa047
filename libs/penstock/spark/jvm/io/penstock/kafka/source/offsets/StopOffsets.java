package io.penstock.kafka.source.offsets;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The offsets at which a query stops reading exactly (option {@code stopAtOffsets}). */
public record StopOffsets(Map<TopicPartition, Long> offsets) {
  /**
   * Limits {@code ends} to the stop offsets. Raises IllegalStateException when a partition has no stop offset, or was
   * already read beyond it.
   */
  public Map<TopicPartition, Long> bound(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Long> bounded = new LinkedHashMap<>();
    ends.forEach((partition, end) -> bounded.put(partition, Math.min(end, stopOf(partition))));
    starts.forEach(this::requireNotBeyond);
    return bounded;
  }

  private long stopOf(TopicPartition partition) {
    Long stop = offsets.get(partition);
    if (stop == null) {
      throw new IllegalStateException(
          "option stopAtOffsets: must name every partition that the query reads, but does not name " + partition);
    }
    return stop;
  }

  private void requireNotBeyond(TopicPartition partition, long start) {
    long stop = stopOf(partition);
    if (start > stop) {
      throw new IllegalStateException(
          "option stopAtOffsets: must not be below the offsets of the checkpoint, which has read " + partition
              + " up to "
              + start + ", beyond " + stop);
    }
  }
}
