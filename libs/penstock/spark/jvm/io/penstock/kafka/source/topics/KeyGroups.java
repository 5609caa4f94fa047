package io.penstock.kafka.source.topics;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;

/**
 * The partitions of each topic that a source reads.
 *
 * @param from the first
 * @param until the one after the last
 * @param count how many each topic has
 */
public record KeyGroups(int from, int until, int count) {
  private static final Pattern FORM = Pattern.compile("(\\d{1,5})-(\\d{1,5})/(\\d{1,5})");

  /** Reads {@code from-until/count}. Raises IllegalArgumentException for anything else. */
  public static KeyGroups of(String text) {
    Matcher found = FORM.matcher(text);
    if (found.matches()) {
      KeyGroups groups = new KeyGroups(number(found, 1), number(found, 2), number(found, 3));
      if (groups.from < groups.until && groups.until <= groups.count) {
        return groups;
      }
    }
    throw new IllegalArgumentException(
        "option keyGroups: must be partitions such as 0-4/8 (0 to 3 of 8), not '" + text + "'");
  }

  Stream<TopicPartition> in(String topic) {
    return IntStream.range(from, until).mapToObj(group -> new TopicPartition(topic, group));
  }

  private static int number(Matcher found, int group) {
    return Integer.parseInt(found.group(group));
  }
}
