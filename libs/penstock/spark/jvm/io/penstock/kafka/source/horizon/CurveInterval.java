package io.penstock.kafka.source.horizon;

/** The interval of a curve that contains some event time. A side without a point is open ({@code null}). */
record CurveInterval(CurvePoint below, CurvePoint above) {
  boolean isShorterThanRows(long rows, long start, long cap) {
    long low = below == null ? start : Math.max(start, below.offset());
    long high = above == null ? cap : Math.min(cap, above.offset());
    return high - low < rows;
  }

  boolean isShorterThanMillis(long millis) {
    return below != null && above != null && above.fromMillis() - below.toMillis() <= millis;
  }
}
