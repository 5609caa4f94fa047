package io.penstock.kafka.source;

/**
 * How far a limited batch goes.
 *
 * @param horizonMillis the event time up to which all partitions are read
 * @param paceMillis how much of event time that is more than the batch before
 */
record Plan(long horizonMillis, long paceMillis) {
  private static final long NO_HORIZON = Long.MIN_VALUE;

  /** Of a batch that is not cut by event time. */
  static final Plan WITHOUT_HORIZON = new Plan(NO_HORIZON, 0);

  boolean hasHorizon() {
    return horizonMillis != NO_HORIZON;
  }

  Plan then(long nextHorizonMillis) {
    return new Plan(nextHorizonMillis, hasHorizon() ? Math.max(0, nextHorizonMillis - horizonMillis) : 0);
  }
}
