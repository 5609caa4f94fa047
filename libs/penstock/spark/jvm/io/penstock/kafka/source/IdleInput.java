package io.penstock.kafka.source;

import java.util.List;
import java.util.OptionalLong;
import java.util.function.LongSupplier;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets the watermark of a query go on while all its inputs are idle. Runs on the query's thread inside
 * {@code latestOffset}: Spark asks for the watermark of the next batch right after it.
 */
final class IdleInput {
  private static final Logger LOG = LoggerFactory.getLogger(IdleInput.class);

  private final LongSupplier clockMillis;
  private final IdleWatermark watermark;
  private long lastRowsMillis;

  IdleInput(long timeoutMillis, LongSupplier clockMillis) {
    this.clockMillis = clockMillis;
    this.watermark = new IdleWatermark(timeoutMillis);
    this.lastRowsMillis = clockMillis.getAsLong();
  }

  void sawRows() {
    lastRowsMillis = clockMillis.getAsLong();
  }

  /** Sets the watermark when it is time. Returns whether Spark has to be made to run a batch for it. */
  boolean advance(BalancedStream self, RunningQuery query) {
    List<SparkDataStream> sources = query.sources();
    if (sources.get(0) != self || !sources.stream().allMatch(IdleInput::tellsIdleness) || !query.mayHoldState()) {
      return false;
    }
    OptionalLong next = watermark.next(elapsedMillis(sources), query.watermarkMillis());
    if (next.isEmpty()) {
      return false;
    }
    query.setWatermark(next.getAsLong());
    LOG.info("all inputs are idle: the watermark goes on to {}", next.getAsLong());
    return !query.hasRunBatches();
  }

  private static boolean tellsIdleness(SparkDataStream source) {
    return source instanceof BalancedStream stream && stream.idleInput().isPresent();
  }

  private long elapsedMillis(List<SparkDataStream> sources) {
    long now = clockMillis.getAsLong();
    return sources.stream()
        .mapToLong(source -> now - ((BalancedStream) source).idleInput().orElseThrow().lastRowsMillis)
        .min()
        .orElse(0);
  }
}
