package io.penstock.kafka.source;

/**
 * The stretch of a partition in which the cut at some event time lies: between two knots, or open where there is
 * none ({@code null}).
 */
record Gap(Knot below, Knot above) {
  boolean isShorterThan(long rows, long start, long cap) {
    long low = below == null ? start : Math.max(start, below.offset());
    long high = above == null ? cap : Math.min(cap, above.offset());
    return high - low < rows;
  }

  boolean isBriefer(long millis) {
    return below != null && above != null && above.fromMillis() - below.toMillis() <= millis;
  }
}
