package io.penstock.kafka.source.plan;

/**
 * The event time that a limited batch reaches.
 *
 * @param horizonMillis the event time up to which all partitions are read
 * @param advanceMillis how much later that is than the horizon of the batch before
 */
public record BatchHorizon(long horizonMillis, long advanceMillis) {
  private static final long ABSENT = Long.MIN_VALUE;

  /** The value for a batch whose ends were not chosen by event time. */
  public static final BatchHorizon NONE = new BatchHorizon(ABSENT, 0);

  public boolean isPresent() {
    return horizonMillis != ABSENT;
  }

  BatchHorizon next(long nextHorizonMillis) {
    return new BatchHorizon(nextHorizonMillis, isPresent() ? Math.max(0, nextHorizonMillis - horizonMillis) : 0);
  }
}
