package io.penstock.kafka.source;

/** Cuts through all partitions at one event time. */
interface Cuts {
  /** Later than any event, and far enough from the ends of a long to reckon with. */
  long NEVER = Long.MAX_VALUE / 4;

  /** The cut at this time as well as is known now; costs nothing. */
  Cut estimate(long millis);

  /** The cut at this time after looking. */
  Cut measure(long millis);

  /** The cut at which nothing is read. */
  Cut nothing();

  /** The cut at {@link #NEVER}: every partition is read as far as the budget would let it alone. */
  Cut everything();

  /** A time after which alone the cut can differ from this one. */
  long reachOf(Cut cut);
}
