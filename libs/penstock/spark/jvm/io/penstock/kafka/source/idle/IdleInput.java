package io.penstock.kafka.source.idle;

import io.penstock.spark42.RunningQuery;
import java.util.List;
import java.util.OptionalLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Advances the watermark of a query while all its inputs are idle. This runs on the query's thread inside
 * {@code latestOffset}, since Spark reads the watermark of the next batch right after that call.
 */
public final class IdleInput {
  private static final Logger LOG = LoggerFactory.getLogger(IdleInput.class);

  private final IdleWatermark watermark;
  private long lastRowsMillis = System.currentTimeMillis();

  public IdleInput(long timeoutMillis) {
    this.watermark = new IdleWatermark(timeoutMillis);
  }

  public void recordRows() {
    lastRowsMillis = System.currentTimeMillis();
  }

  /**
   * Sets the watermark when it is time. Returns whether the source must make Spark run a batch for it. {@code inputs}
   * are all inputs of the query, this one among them; {@code bound} is the latest watermark that their producers allow.
   */
  public boolean advance(List<IdleInput> inputs, RunningQuery query, long bound) {
    if (!query.mayHoldState()) {
      return false;
    }
    long lastRows = inputs.stream().mapToLong(input -> input.lastRowsMillis).max().orElse(lastRowsMillis);
    OptionalLong next = watermark.next(System.currentTimeMillis() - lastRows, query.watermarkMillis());
    if (next.isEmpty() || Math.min(next.getAsLong(), bound) <= query.watermarkMillis()) {
      return false;
    }
    long reached = Math.min(next.getAsLong(), bound);
    query.setWatermark(reached);
    LOG.info("all inputs are idle: the watermark advances to {}", reached);
    return !query.hasRunBatches();
  }
}
