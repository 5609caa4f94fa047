package io.penstock.kafka.source;

import java.util.OptionalLong;

/**
 * How far the watermark of a query goes on while nothing comes: as far as the clock since the last rows, in steps of
 * the timeout. Between two steps an idle query runs no batch.
 */
final class IdleWatermark {
  private final long timeoutMillis;
  private long baseMillis;
  private long elapsedMillis;
  private long grantedMillis;

  IdleWatermark(long timeoutMillis) {
    this.timeoutMillis = timeoutMillis;
  }

  /**
   * The watermark to set now, if any.
   *
   * @param elapsed milliseconds since any input had rows; less than before means that rows came in between
   * @param watermark the query's, in milliseconds since 1970; 0 as long as there were no rows at all
   */
  OptionalLong next(long elapsed, long watermark) {
    if (elapsed < elapsedMillis || baseMillis == 0) {
      baseMillis = watermark;
      grantedMillis = 0;
    }
    elapsedMillis = elapsed;
    if (watermark <= 0 || elapsed - grantedMillis < timeoutMillis) {
      return OptionalLong.empty();
    }
    grantedMillis = elapsed;
    return OptionalLong.of(Math.max(watermark, baseMillis + elapsed));
  }
}
