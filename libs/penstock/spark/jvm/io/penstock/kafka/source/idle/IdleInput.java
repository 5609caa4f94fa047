package io.penstock.kafka.source.idle;

import io.penstock.spark42.RunningQuery;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.LongSupplier;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Advances the watermark of a query while all its inputs are idle. This runs on the query's thread inside
 * {@code latestOffset}, since Spark reads the watermark of the next batch right after that call.
 */
public final class IdleInput {
  private static final Logger LOG = LoggerFactory.getLogger(IdleInput.class);

  private final LongSupplier clockMillis;
  private final IdleWatermark watermark;
  private long lastRowsMillis;

  public IdleInput(long timeoutMillis, LongSupplier clockMillis) {
    this.clockMillis = clockMillis;
    this.watermark = new IdleWatermark(timeoutMillis);
    this.lastRowsMillis = clockMillis.getAsLong();
  }

  public void recordRows() {
    lastRowsMillis = clockMillis.getAsLong();
  }

  /** Sets the watermark when it is time. Returns whether the source must make Spark run a batch for it. */
  public boolean advance(SparkDataStream self, RunningQuery query) {
    List<SparkDataStream> sources = query.sources();
    if (sources.get(0) != self || !sources.stream().allMatch(IdleInput::reportsIdleness) || !query.mayHoldState()) {
      return false;
    }
    OptionalLong next = watermark.next(elapsedMillis(sources), query.watermarkMillis());
    if (next.isEmpty()) {
      return false;
    }
    query.setWatermark(next.getAsLong());
    LOG.info("all inputs are idle: the watermark advances to {}", next.getAsLong());
    return !query.hasRunBatches();
  }

  private static boolean reportsIdleness(SparkDataStream source) {
    return source instanceof IdleSource idle && idle.idleInput().isPresent();
  }

  private long elapsedMillis(List<SparkDataStream> sources) {
    long now = clockMillis.getAsLong();
    return sources.stream()
        .mapToLong(source -> now - ((IdleSource) source).idleInput().orElseThrow().lastRowsMillis)
        .min()
        .orElse(0);
  }
}
