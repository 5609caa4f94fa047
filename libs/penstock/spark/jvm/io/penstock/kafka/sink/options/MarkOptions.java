package io.penstock.kafka.sink.options;

import io.penstock.kafka.marks.Mark;
import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.io.Serializable;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Where a sink says how far in event time it has come, and as whom.
 *
 * @param topic the topic of the marks; empty: the sink writes none
 * @param every how often a query without rows says that it has come further
 */
public record MarkOptions(String topic, Mark.Producer producer, Duration every) implements Serializable {
  public static final MarkOptions NONE = new MarkOptions("", null, Duration.ZERO);

  private static final long EVERY_SECONDS = 2;
  private static final Pattern MEMBER = Pattern.compile("(\\d{1,6})/(\\d{1,6})");

  static MarkOptions of(CaseInsensitiveStringMap options) {
    String topic = options.get("marksTopic");
    if (topic == null) {
      return NONE;
    }
    return new MarkOptions(topic, producer(options), SinkOptions.seconds(options, "marksEverySeconds", EVERY_SECONDS));
  }

  public boolean areOn() {
    return !topic.isEmpty();
  }

  private static Mark.Producer producer(CaseInsensitiveStringMap options) {
    String text = options.getOrDefault("marksMember", "0/1");
    Matcher member = MEMBER.matcher(text);
    if (!member.matches() || Integer.parseInt(member.group(1)) >= Integer.parseInt(member.group(2))) {
      throw new BrokenSinkException("option marksMember: must be a number from 0 on, a slash and a larger number, not " + text);
    }
    return new Mark.Producer(
        SinkOptions.required(options, "marksGroup"), options.getInt("marksGeneration", 0),
        Integer.parseInt(member.group(1)), Integer.parseInt(member.group(2)));
  }
}
