package io.penstock.kafka.source.horizon;

import io.penstock.kafka.source.broker.OffsetRange;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The partitions whose time index gives useful answers. Two kinds of partitions are not trusted. Transaction markers
 * carry the time of the clock, so partitions written by transactions never are. A record with a bogus late time hides
 * the records behind it, so its partition is not trusted for horizons up to that time.
 */
public final class TimeIndexTrust {
  private final Map<TopicPartition, Boolean> trusted = new HashMap<>();
  private final Map<TopicPartition, Long> distrustedUntil = new HashMap<>();

  /** Those of the partitions for which {@link #decide} was not called yet. */
  public Set<TopicPartition> undecided(Set<TopicPartition> partitions) {
    Set<TopicPartition> others = new HashSet<>(partitions);
    others.removeAll(trusted.keySet());
    return others;
  }

  public void decide(TopicPartition partition, boolean trustworthy) {
    trusted.put(partition, trustworthy);
  }

  boolean isTrusted(TopicPartition partition, long millis) {
    return trusted.getOrDefault(partition, false) && millis > distrustedUntil.getOrDefault(partition, Long.MIN_VALUE);
  }

  void distrustUntil(TopicPartition partition, long untilMillis) {
    distrustedUntil.merge(partition, untilMillis, Math::max);
  }

  /**
   * Whether an answer must be compared with records before it is used. This is so when its offset lies before the
   * unread range (disorder or a bogus record), or its time is much later than {@code millis} (a pause or a bogus
   * record).
   */
  static boolean needsCheck(ListOffsetsResultInfo entry, OffsetRange range, long millis, long toleranceMillis) {
    return entry.offset() < range.end()
        && (entry.offset() < range.start() || entry.timestamp() - millis > toleranceMillis);
  }
}
