package io.penstock.kafka.source.horizon;

import io.penstock.kafka.source.broker.OffsetRange;
import io.penstock.kafka.source.broker.Sample;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/**
 * The known event times of one partition: points by offset, with straight lines between them. Rows are read in order,
 * so the time of a point is at least that of all points before it: event time never falls along the curve.
 */
public final class EventTimeCurve {
  /**
   * An offset of a partition whose event time is known. For each time in {@code [fromMillis, toMillis]}, the rows
   * before that time are the rows before {@code offset}.
   *
   * @param exact true when the time index gave the point; false when it is a median of a sample
   */
  record Point(long offset, long fromMillis, long toMillis, boolean exact) {
    private Point merge(Point other) {
      if (exact != other.exact) {
        return exact ? this : other;
      }
      return new Point(offset, Math.min(fromMillis, other.fromMillis), Math.max(toMillis, other.toMillis), exact);
    }

    private Point notBefore(long millis) {
      return new Point(offset, Math.max(fromMillis, millis), Math.max(toMillis, millis), exact);
    }

    /** Whether event time would fall from the one point to the other. */
    private boolean contradicts(Point other) {
      return offset <= other.offset ? toMillis > other.fromMillis : fromMillis < other.toMillis;
    }

    private boolean covers(long millis) {
      return fromMillis <= millis && millis <= toMillis;
    }
  }

  /**
   * The interval of a curve that contains some event time. A side without a point is open ({@code null}). Both sides
   * are the same point if that covers the time.
   */
  record Interval(Point below, Point above) {
    boolean isPoint() {
      return below != null && below == above;
    }

    long low(long start) {
      return below == null ? start : Math.max(start, below.offset);
    }

    long high(long cap) {
      return above == null ? cap : Math.min(cap, above.offset);
    }

    boolean isShorterThanMillis(long millis) {
      return below != null && above != null && above.fromMillis - below.toMillis <= millis;
    }
  }

  private final TreeMap<Long, Point> points = new TreeMap<>();
  private List<Point> monotone = List.of();

  public boolean isEmpty() {
    return points.isEmpty();
  }

  /** Adds the first and the last point of each stretch of a sample whose times differ by at most the tolerance. */
  public void add(Sample sample, long toleranceMillis) {
    List<Sample.Point> sampled = sample.points();
    long keptMillis = Long.MIN_VALUE / 2;
    for (int at = 0; at < sampled.size(); at++) {
      boolean last = at == sampled.size() - 1;
      if (last || Math.abs(sampled.get(at + 1).millis() - keptMillis) > toleranceMillis) {
        long offset = sampled.get(at).offset();
        keptMillis = sampled.get(at).millis();
        points.merge(offset, new Point(offset, keptMillis, keptMillis, false), Point::merge);
      }
    }
    monotone = monotonePoints();
  }

  /** Adds a point of the time index and removes sampled points that contradict it. */
  void addExact(long offset, long fromMillis, long toMillis) {
    Point exact = new Point(offset, fromMillis, toMillis, true);
    points.values().removeIf(point -> !point.exact() && point.contradicts(exact));
    points.merge(offset, exact, Point::merge);
    monotone = monotonePoints();
  }

  /** Removes the points before {@code start} except the last two, which show the pace there. */
  public void forgetBefore(long start) {
    Long last = points.floorKey(start);
    Long lastButOne = last == null ? null : points.lowerKey(last);
    if (lastButOne != null && points.firstKey() < lastButOne) {
      points.headMap(lastButOne).clear();
      monotone = monotonePoints();
    }
  }

  /** Estimates the offset before which all rows are earlier than {@code millis}. The result is in [start, cap]. */
  long offsetAt(long millis, long start, long cap) {
    return Math.max(start, Math.min(cap, unboundedOffsetAt(millis, start, cap)));
  }

  /** Estimates the event time that is reached at an offset. */
  long timeAt(long offset) {
    Point below = null;
    for (Point point : monotone) {
      if (point.offset() >= offset) {
        return below == null || point.offset() == offset ? point.fromMillis() : timeBetween(below, point, offset);
      }
      below = point;
    }
    return below == null ? Long.MIN_VALUE : below.toMillis();
  }

  /** The latest known time, at least {@code millis}, for which {@link #offsetAt} still gives {@code offset}. */
  long lastTimeAt(long millis, long offset) {
    return monotone.stream()
        .filter(point -> point.offset == offset)
        .mapToLong(point -> Math.max(millis, point.toMillis))
        .findFirst()
        .orElse(millis);
  }

  /** The interval between known points that contains {@code millis}. */
  Interval intervalAt(long millis) {
    Point below = null;
    for (Point point : monotone) {
      if (point.covers(millis)) {
        return new Interval(point, point);
      }
      if (point.fromMillis > millis) {
        return new Interval(below, point);
      }
      below = point;
    }
    return new Interval(below, null);
  }

  private long unboundedOffsetAt(long millis, long start, long cap) {
    Interval around = intervalAt(millis);
    if (around.isPoint()) {
      return around.below.offset;
    }
    if (around.below == null) {
      return start;
    }
    return around.above == null
        ? offsetBeyond(around.below, millis, cap)
        : offsetBetween(around.below, around.above, millis);
  }

  private static long offsetBetween(Point below, Point above, long millis) {
    double share = (millis - below.toMillis()) / (double) (above.fromMillis() - below.toMillis());
    long between = above.offset() - below.offset() - 1;
    return below.offset() + 1 + (long) (between * share);
  }

  private static long timeBetween(Point below, Point above, long offset) {
    double share = (offset - below.offset()) / (double) (above.offset() - below.offset());
    return below.toMillis() + (long) ((above.fromMillis() - below.toMillis()) * share);
  }

  /** Extrapolates beyond the last point at the pace of the last interval. */
  private long offsetBeyond(Point last, long millis, long cap) {
    if (cap - last.offset() <= OffsetRange.SHORT_ROWS) {
      return cap;
    }
    double more = rowsPerMilli() * (millis - (double) last.toMillis());
    return more >= cap - last.offset() ? cap : last.offset() + 1 + (long) more;
  }

  private double rowsPerMilli() {
    Point last = monotone.get(monotone.size() - 1);
    for (int at = monotone.size() - 2; at >= 0; at--) {
      Point earlier = monotone.get(at);
      if (earlier.toMillis() < last.fromMillis()) {
        return (last.offset() - earlier.offset()) / (double) (last.fromMillis() - earlier.toMillis());
      }
    }
    return 0;
  }

  private List<Point> monotonePoints() {
    List<Point> result = new ArrayList<>(points.size());
    long reached = Long.MIN_VALUE;
    for (Point point : points.values()) {
      Point next = point.notBefore(reached);
      result.add(next);
      reached = next.toMillis();
    }
    return result;
  }
}
