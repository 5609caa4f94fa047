package io.penstock.kafka.source.offsets;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Where a running query ends to read before a rescale, unlike {@link StopOffsets} not for its whole life. */
public final class Cuts {
  private Cuts() {}

  /** {@code ends}, limited to {@code cuts}. A partition that was read beyond its cut, or has none, is not read on.
   * {@code names}: of the cluster whose cuts count. */
  public static Map<TopicPartition, Long> bound(
      String cuts, ClusterNames names, Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Long> bounded = new LinkedHashMap<>();
    Map<TopicPartition, Long> offsets = names.parse(cuts, "cuts of a rescale");
    ends.forEach((partition, end) -> {
      long start = starts.get(partition);
      bounded.put(partition, Math.min(end, Math.max(start, offsets.getOrDefault(partition, start))));
    });
    return bounded;
  }
}
