package io.penstock.kafka.source;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/**
 * What is known of when the rows of one partition happened: knots by offset, straight lines in between. Time never
 * falls along it: a later knot with an earlier time counts as the latest time so far, since rows are read in order.
 */
final class Curve {
  /** So near to the end of what may be read, all of it is taken for as late as the last that is known. */
  static final long SHORT_ROWS = 16;

  private final TreeMap<Long, Knot> knots = new TreeMap<>();
  private List<Knot> rising = List.of();

  boolean isEmpty() {
    return knots.isEmpty();
  }

  /** Adds what a few records tell: the first and the last place of each stretch that is not longer than a tolerance. */
  void add(Run run, long toleranceMillis) {
    List<Run.Place> places = run.places();
    long noted = Long.MIN_VALUE / 2;
    for (int at = 0; at < places.size(); at++) {
      boolean last = at == places.size() - 1;
      if (last || Math.abs(places.get(at + 1).millis() - noted) > toleranceMillis) {
        Run.Place place = places.get(at);
        knots.merge(place.offset(), new Knot(place.offset(), place.millis(), place.millis(), false), Knot::with);
        noted = place.millis();
      }
    }
    rising = rise();
  }

  /** Adds what is certain; what records told otherwise is dropped. */
  void addExact(long offset, long fromMillis, long toMillis) {
    Knot exact = new Knot(offset, fromMillis, toMillis, true);
    knots.values().removeIf(knot -> !knot.exact() && knot.contradicts(exact));
    knots.merge(offset, exact, Knot::with);
    rising = rise();
  }

  /** Drops what lies before {@code start}, but for two knots that tell the pace there. */
  void forgetBefore(long start) {
    Long last = knots.floorKey(start);
    Long lastButOne = last == null ? null : knots.lowerKey(last);
    if (lastButOne != null && knots.firstKey() < lastButOne) {
      knots.headMap(lastButOne).clear();
      rising = rise();
    }
  }

  /** The offset before which the rows are below {@code millis}, as well as is known; always in [start, cap]. */
  long cutAt(long millis, long start, long cap) {
    return Math.max(start, Math.min(cap, unboundedCutAt(millis, start, cap)));
  }

  /** The time that has been reached at an offset, as well as is known. */
  long timeAt(long offset) {
    Knot below = null;
    for (Knot knot : rising) {
      if (knot.offset() >= offset) {
        return below == null || knot.offset() == offset ? knot.fromMillis() : timeBetween(below, knot, offset);
      }
      below = knot;
    }
    return below == null ? Long.MIN_VALUE : below.toMillis();
  }

  /** The first time above {@code millis} at which the cut can move on from {@code offset}. */
  long nextTimeAt(long millis, long offset) {
    for (Knot knot : rising) {
      if (knot.offset() >= offset) {
        return Math.max(millis, knot.offset() == offset ? knot.toMillis() : millis);
      }
    }
    return millis;
  }

  /** Where the cut at this time lies between knots; null where a knot tells it. */
  Gap gapAt(long millis) {
    Knot below = null;
    for (Knot knot : rising) {
      if (knot.covers(millis)) {
        return null;
      }
      if (knot.fromMillis() > millis) {
        return new Gap(below, knot);
      }
      below = knot;
    }
    return new Gap(below, null);
  }

  private long unboundedCutAt(long millis, long start, long cap) {
    Knot below = null;
    for (Knot knot : rising) {
      if (knot.covers(millis)) {
        return knot.offset();
      }
      if (knot.fromMillis() > millis) {
        return below == null ? start : offsetBetween(below, knot, millis);
      }
      below = knot;
    }
    return below == null ? start : offsetBehind(below, millis, cap);
  }

  private static long offsetBetween(Knot below, Knot above, long millis) {
    double share = (millis - below.toMillis()) / (double) (above.fromMillis() - below.toMillis());
    long between = above.offset() - below.offset() - 1;
    return below.offset() + 1 + (long) (between * share);
  }

  private static long timeBetween(Knot below, Knot above, long offset) {
    double share = (offset - below.offset()) / (double) (above.offset() - below.offset());
    return below.toMillis() + (long) ((above.fromMillis() - below.toMillis()) * share);
  }

  /** Behind the last knot: at the pace of the last stretch that has one. */
  private long offsetBehind(Knot last, long millis, long cap) {
    if (cap - last.offset() <= SHORT_ROWS) {
      return cap;
    }
    double more = rowsPerMilli() * (millis - (double) last.toMillis());
    return more >= cap - last.offset() ? cap : last.offset() + 1 + (long) more;
  }

  private double rowsPerMilli() {
    Knot last = rising.get(rising.size() - 1);
    for (int at = rising.size() - 2; at >= 0; at--) {
      Knot earlier = rising.get(at);
      if (earlier.toMillis() < last.fromMillis()) {
        return (last.offset() - earlier.offset()) / (double) (last.fromMillis() - earlier.toMillis());
      }
    }
    return 0;
  }

  private List<Knot> rise() {
    List<Knot> result = new ArrayList<>(knots.size());
    long reached = Long.MIN_VALUE;
    for (Knot knot : knots.values()) {
      Knot next = knot.notBefore(reached);
      result.add(next);
      reached = next.toMillis();
    }
    return result;
  }
}
