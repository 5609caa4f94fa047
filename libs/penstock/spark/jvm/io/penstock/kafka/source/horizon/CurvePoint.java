package io.penstock.kafka.source.horizon;

/**
 * An offset of a partition whose event time is known. For each time in {@code [fromMillis, toMillis]}, the rows before
 * that time are the rows before {@code offset}.
 *
 * @param exact true when the time index gave the point; false when it is a median of a sample
 */
record CurvePoint(long offset, long fromMillis, long toMillis, boolean exact) {
  CurvePoint merge(CurvePoint other) {
    if (exact != other.exact) {
      return exact ? this : other;
    }
    return new CurvePoint(
        offset, Math.min(fromMillis, other.fromMillis), Math.max(toMillis, other.toMillis), exact);
  }

  CurvePoint notBefore(long millis) {
    return new CurvePoint(offset, Math.max(fromMillis, millis), Math.max(toMillis, millis), exact);
  }

  /** Whether event time would fall from the one point to the other. */
  boolean contradicts(CurvePoint other) {
    return offset <= other.offset ? toMillis > other.fromMillis : fromMillis < other.toMillis;
  }

  boolean covers(long millis) {
    return fromMillis <= millis && millis <= toMillis;
  }
}
