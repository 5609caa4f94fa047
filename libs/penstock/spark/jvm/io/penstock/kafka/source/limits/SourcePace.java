package io.penstock.kafka.source.limits;

import io.penstock.spark42.RunningQuery;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;

/**
 * Tells the {@link BatchPace} of a source what it gave to each batch and how long the batch took. A query that is
 * started again in this JVM goes on at its former pace.
 */
public final class SourcePace {
  private static final int MOST_KNOWN = 1_000;
  private static final long NO_BATCH = -1;
  private static final Map<String, BatchPace> KNOWN =
      Collections.synchronizedMap(new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, BatchPace> eldest) {
          return size() > MOST_KNOWN;
        }
      });

  /** What a row is taken to cost before any batch has told. */
  private static final double FIRST_ROW_MILLIS = 1;
  private static final int CORES = Runtime.getRuntime().availableProcessors();

  private final long targetMillis;
  private BatchPace pace;
  private long batchId = NO_BATCH;
  private long rows;
  private int readers = 1;
  private double rowMillis = FIRST_ROW_MILLIS;

  public SourcePace(long targetMillis) {
    this.targetMillis = targetMillis;
  }

  /** {@code limits} with the limit of the next batch, which {@code query} plans; {@code source}: its number there. */
  public ReadLimits limit(ReadLimits limits, RunningQuery query, int source) {
    if (pace == null) {
      String name = query.id() + "#" + source + "@" + targetMillis;
      pace = KNOWN.computeIfAbsent(name, fresh -> new BatchPace(targetMillis));
    }
    query.lastBatch().filter(last -> last.id() == batchId).ifPresent(last -> {
      pace.finished(rows, last.rows(), last.millis());
      rowMillis = last.rows() == 0 ? rowMillis : (double) last.millis() * Math.min(readers, CORES) / last.rows();
      batchId = NO_BATCH;
    });
    long most = Math.min(pace.limit(), limits.maxRows().orElse(Long.MAX_VALUE));
    return new ReadLimits(OptionalLong.of(most), limits.maxBytes(), limits.least());
  }

  /** The source gives so many rows to the batch that {@code query} plans. */
  public void planned(RunningQuery query, long rows) {
    this.batchId = query.batchId();
    this.rows = rows;
  }

  /** The most that a row of the query costs one Spark task, by its last batch that had rows. */
  public double rowMillis() {
    return rowMillis;
  }

  /** So many Spark tasks read the source's rows of the batch. */
  public void readBy(int sparkTasks) {
    readers = Math.max(1, sparkTasks);
  }

  /** The rows of a batch with these starts and ends. */
  public static long rowsBetween(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    return ends.entrySet().stream().mapToLong(end -> end.getValue() - starts.get(end.getKey())).sum();
  }
}
