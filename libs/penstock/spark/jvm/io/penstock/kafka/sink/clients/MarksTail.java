package io.penstock.kafka.sink.clients;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheBuilder;
import com.google.common.cache.RemovalNotification;
import io.penstock.kafka.marks.MarksTopic;
import io.penstock.kafka.marks.ProducerMarks;
import io.penstock.kafka.sink.options.SinkOptions;
import java.time.Duration;
import java.util.Map;

/**
 * How far the producers of a topic have come, as idle queries of this JVM see it. All share one consumer, which is
 * closed after 10 minutes without use. Only the housekeeper's thread uses it.
 */
public final class MarksTail {
  private static final long NEWEST = 1000;
  private static final Duration VALID = Duration.ofMillis(500);
  private static final Cache<Key, MarksTail> TAILS = CacheBuilder.newBuilder()
      .expireAfterAccess(Duration.ofMinutes(10))
      .removalListener((RemovalNotification<Key, MarksTail> idle) -> idle.getValue().topic.close())
      .build();

  static {
    ClientHousekeeper.everySecond(nowNanos -> TAILS.cleanUp());
  }

  private final MarksTopic topic;
  private final ProducerMarks marks = new ProducerMarks();
  private Reading reading;

  private record Key(Map<String, String> kafka, String topic) {}

  /**
   * What was there at a moment.
   *
   * @param position the offset after the last mark
   * @param latestMillis the latest time that any producer had come to; 0 when none had
   * @param nanos the moment, by {@code System.nanoTime()}
   */
  public record Reading(long position, long latestMillis, long nanos) {}

  private MarksTail(SinkOptions options) {
    topic = new MarksTopic(
        () -> SeriesAdmin.client(options), SinkOptions.admin(options.kafka()), options.marks().topic(), NEWEST,
        Long.MAX_VALUE);
  }

  /** A reading that is about a second old at most. */
  public static Reading read(SinkOptions options) {
    Key key = new Key(options.kafka(), options.marks().topic());
    MarksTail tail = TAILS.asMap().computeIfAbsent(key, absent -> new MarksTail(options));
    if (tail.reading == null || System.nanoTime() - tail.reading.nanos > VALID.toNanos()) {
      tail.topic.readOn(tail.marks::add);
      tail.reading = new Reading(
          tail.topic.position(), tail.marks.latestMillis().orElse(0), System.nanoTime());
    }
    return tail.reading;
  }
}
