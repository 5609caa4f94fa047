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
  private final TreeMap<Long, CurvePoint> points = new TreeMap<>();
  private List<CurvePoint> monotone = List.of();

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
        points.merge(offset, new CurvePoint(offset, keptMillis, keptMillis, false), CurvePoint::merge);
      }
    }
    monotone = monotonePoints();
  }

  /** Adds a point of the time index and removes sampled points that contradict it. */
  void addExact(long offset, long fromMillis, long toMillis) {
    CurvePoint exact = new CurvePoint(offset, fromMillis, toMillis, true);
    points.values().removeIf(point -> !point.exact() && point.contradicts(exact));
    points.merge(offset, exact, CurvePoint::merge);
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
    CurvePoint below = null;
    for (CurvePoint point : monotone) {
      if (point.offset() >= offset) {
        return below == null || point.offset() == offset ? point.fromMillis() : timeBetween(below, point, offset);
      }
      below = point;
    }
    return below == null ? Long.MIN_VALUE : below.toMillis();
  }

  /** The latest known time, at least {@code millis}, for which {@link #offsetAt} still gives {@code offset}. */
  long lastTimeAt(long millis, long offset) {
    for (CurvePoint point : monotone) {
      if (point.offset() >= offset) {
        return Math.max(millis, point.offset() == offset ? point.toMillis() : millis);
      }
    }
    return millis;
  }

  /** The interval between known points that contains {@code millis}; null when a point covers it. */
  CurveInterval intervalAt(long millis) {
    CurvePoint below = null;
    for (CurvePoint point : monotone) {
      if (point.covers(millis)) {
        return null;
      }
      if (point.fromMillis() > millis) {
        return new CurveInterval(below, point);
      }
      below = point;
    }
    return new CurveInterval(below, null);
  }

  private long unboundedOffsetAt(long millis, long start, long cap) {
    CurvePoint below = null;
    for (CurvePoint point : monotone) {
      if (point.covers(millis)) {
        return point.offset();
      }
      if (point.fromMillis() > millis) {
        return below == null ? start : offsetBetween(below, point, millis);
      }
      below = point;
    }
    return below == null ? start : offsetBeyond(below, millis, cap);
  }

  private static long offsetBetween(CurvePoint below, CurvePoint above, long millis) {
    double share = (millis - below.toMillis()) / (double) (above.fromMillis() - below.toMillis());
    long between = above.offset() - below.offset() - 1;
    return below.offset() + 1 + (long) (between * share);
  }

  private static long timeBetween(CurvePoint below, CurvePoint above, long offset) {
    double share = (offset - below.offset()) / (double) (above.offset() - below.offset());
    return below.toMillis() + (long) ((above.fromMillis() - below.toMillis()) * share);
  }

  /** Extrapolates beyond the last point at the pace of the last interval. */
  private long offsetBeyond(CurvePoint last, long millis, long cap) {
    if (cap - last.offset() <= OffsetRange.SHORT_ROWS) {
      return cap;
    }
    double more = rowsPerMilli() * (millis - (double) last.toMillis());
    return more >= cap - last.offset() ? cap : last.offset() + 1 + (long) more;
  }

  private double rowsPerMilli() {
    CurvePoint last = monotone.get(monotone.size() - 1);
    for (int at = monotone.size() - 2; at >= 0; at--) {
      CurvePoint earlier = monotone.get(at);
      if (earlier.toMillis() < last.fromMillis()) {
        return (last.offset() - earlier.offset()) / (double) (last.fromMillis() - earlier.toMillis());
      }
    }
    return 0;
  }

  private List<CurvePoint> monotonePoints() {
    List<CurvePoint> result = new ArrayList<>(points.size());
    long reached = Long.MIN_VALUE;
    for (CurvePoint point : points.values()) {
      CurvePoint next = point.notBefore(reached);
      result.add(next);
      reached = next.toMillis();
    }
    return result;
  }
}
