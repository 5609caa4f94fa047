package io.penstock.kafka.source;

/**
 * A place of a partition whose event time is known: for each time in {@code [fromMillis, toMillis]} the rows below it
 * are those before {@code offset}. Exact ones come from the index, the others are medians of a few records.
 */
record Knot(long offset, long fromMillis, long toMillis, boolean exact) {
  Knot with(Knot other) {
    if (exact != other.exact) {
      return exact ? this : other;
    }
    return new Knot(offset, Math.min(fromMillis, other.fromMillis), Math.max(toMillis, other.toMillis), exact);
  }

  Knot notBefore(long millis) {
    return new Knot(offset, Math.max(fromMillis, millis), Math.max(toMillis, millis), exact);
  }

  /** Whether it is before one of the two and behind the other: time would fall from one to the next. */
  boolean contradicts(Knot other) {
    return offset <= other.offset ? toMillis > other.fromMillis : fromMillis < other.toMillis;
  }

  boolean covers(long millis) {
    return fromMillis <= millis && millis <= toMillis;
  }
}
