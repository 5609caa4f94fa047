package io.penstock.kafka.source.idle;

import java.util.OptionalLong;

/**
 * The watermark of an idle query. It advances with the clock from the last rows on, or from where producers let it go
 * since, in steps of the timeout. Between two steps an idle query runs no batch.
 */
public final class IdleWatermark {
  private final long timeoutMillis;
  private long baseMillis;
  private long baseElapsedMillis;
  private long elapsedMillis;
  private long grantedMillis;

  public IdleWatermark(long timeoutMillis) {
    this.timeoutMillis = timeoutMillis;
  }

  /**
   * The watermark to set now. Empty when it is not time.
   *
   * @param elapsed milliseconds since any input had rows; a smaller value than before means that rows came meanwhile
   * @param watermark the query's watermark in milliseconds since 1970; 0 before the first row
   */
  public OptionalLong next(long elapsed, long watermark) {
    boolean rowsCame = elapsed < elapsedMillis || baseMillis == 0;
    if (rowsCame || watermark > baseMillis + grantedMillis - baseElapsedMillis) {
      baseMillis = watermark;
      baseElapsedMillis = rowsCame ? 0 : elapsed;
      grantedMillis = baseElapsedMillis;
    }
    elapsedMillis = elapsed;
    if (watermark <= 0 || elapsed - grantedMillis < timeoutMillis) {
      return OptionalLong.empty();
    }
    grantedMillis = elapsed;
    return OptionalLong.of(Math.max(watermark, baseMillis + elapsed - baseElapsedMillis));
  }
}
