package io.penstock.kafka.source.broker;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * The event times of a few consecutive records. The time at an offset is the median of the record's own time and its
 * neighbours' times, so a single record with a bogus time has no effect.
 *
 * @param points in order of offset; empty when no record has an event time
 * @param meanBytes the mean size of key and value in bytes
 */
public record Sample(List<Point> points, double meanBytes) {
  /** The number of records in a sample from its offset on, unless the log ends earlier. */
  static final int RECORDS = 18;

  /** The number of offsets before the requested one that are read too. Their records serve as neighbours only. */
  static final int LEAD = 4;

  private static final int NEIGHBOURS = 2;

  public record Point(long offset, long millis) {}

  /**
   * A sample of records.
   *
   * @param asked the offset of the first point; records before it serve as neighbours only
   * @param records those with an event time, in order of offset
   * @param followed whether more records follow that were not read
   */
  static Sample of(long asked, List<Point> records, boolean followed, double meanBytes) {
    // Without its right neighbours a record with a bogus time looks like a record after a pause: leave it out.
    int count = followed ? records.size() - NEIGHBOURS : records.size();
    List<Point> points = new ArrayList<>();
    for (int at = 0; at < count; at++) {
      if (records.get(at).offset() >= asked) {
        points.add(new Point(records.get(at).offset(), timeAt(records, at)));
      }
    }
    return new Sample(points, meanBytes);
  }

  public OptionalLong firstMillis() {
    return points.isEmpty() ? OptionalLong.empty() : OptionalLong.of(points.get(0).millis());
  }

  public OptionalLong lastMillis() {
    return points.isEmpty() ? OptionalLong.empty() : OptionalLong.of(points.get(points.size() - 1).millis());
  }

  /** The first record has no left neighbours. Its time is at most that of its right neighbours. */
  private static long timeAt(List<Point> records, int at) {
    long median = medianAround(records, at);
    return at == 0 && records.size() > 2 ? Math.min(median, medianAround(records, 1)) : median;
  }

  /** Takes equally many neighbours on both sides: in an ordered log the median is the record's own time. */
  private static long medianAround(List<Point> records, int at) {
    int radius = Math.min(NEIGHBOURS, Math.min(at, records.size() - 1 - at));
    return records.subList(at - radius, at + radius + 1).stream().map(Point::millis).sorted().toList().get(radius);
  }
}
