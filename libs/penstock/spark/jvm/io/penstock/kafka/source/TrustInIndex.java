package io.penstock.kafka.source;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * Which partitions can be looked up by the time index. Never those that transactions write, whose markers carry the
 * time of the clock; and not those in which a record with a bogus later time hides what lies behind it, as long as it
 * does: the index answers with the first record that is late enough.
 */
final class TrustInIndex {
  private final Set<TopicPartition> judged = new HashSet<>();
  private final Set<TopicPartition> trusted = new HashSet<>();
  private final Map<TopicPartition, Long> hiddenUntil = new HashMap<>();

  /** Those of the partitions of which nobody has said yet whether they can be trusted. */
  Set<TopicPartition> notJudged(Set<TopicPartition> partitions) {
    Set<TopicPartition> others = new HashSet<>(partitions);
    others.removeAll(judged);
    return others;
  }

  void judge(Set<TopicPartition> partitions, boolean trustworthy) {
    judged.addAll(partitions);
    if (trustworthy) {
      trusted.addAll(partitions);
    }
  }

  boolean holdsFor(TopicPartition partition, long millis) {
    Long until = hiddenUntil.get(partition);
    return trusted.contains(partition) && (until == null || millis > until);
  }

  void hidden(TopicPartition partition, long untilMillis) {
    hiddenUntil.merge(partition, untilMillis, Math::max);
  }

  /**
   * Whether an answer must be looked at before it is believed: it lies before what is yet to be read, or much later
   * than the time asked for. The first can be disorder, the second a pause; or either is a bogus record.
   */
  static boolean isDoubtful(Found found, Range range, long millis, long toleranceMillis) {
    return found.offset() < range.end()
        && (found.offset() < range.start() || found.millis() - millis > toleranceMillis);
  }
}
