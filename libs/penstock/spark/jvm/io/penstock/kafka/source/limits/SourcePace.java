package io.penstock.kafka.source.limits;

import io.penstock.spark42.RunningQuery;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;

/**
 * Tells the {@link BatchPace} of a source what it gave to each batch and how long the batch took. A job whose queries
 * have run in this JVM before goes on at the pace that the last of them has come to, unless it does something else with
 * a row now, or reads another kind of source.
 */
public final class SourcePace {
  private static final int MOST_KNOWN = 1_000;
  private static final long NO_BATCH = -1;
  /** So long a batch may take without rows (planning, commit) before any batch has told. */
  private static final double WITHOUT_ROWS_MILLIS = 300;
  private static final Map<String, Long> KNOWN = Collections.synchronizedMap(newest());
  private static final Map<String, Double> ROW_MILLIS = Collections.synchronizedMap(newest());

  private final long targetMillis;
  private final long first;
  private final String kind;
  private String name;
  private BatchPace pace;
  private long batchId = NO_BATCH;
  private long rows;
  private int readers;
  private String readOf = "";

  /** {@code first}: rows, or files, of the very first batch of a job. {@code kind}: which of these are counted. */
  private SourcePace(long targetMillis, long first, String kind) {
    this.targetMillis = targetMillis;
    this.first = first;
    this.kind = kind;
  }

  /** Of files, of which the first batch has one. */
  public static SourcePace ofFiles(long targetMillis) {
    return new SourcePace(targetMillis, 1, "files");
  }

  /** Of records in topics. */
  public static SourcePace ofRecords(long targetMillis) {
    return new SourcePace(targetMillis, BatchPace.firstRows(targetMillis), "records");
  }

  /** {@code limits} with the limit of the next batch, which {@code query} plans; {@code source}: its number there. */
  public ReadLimits limit(ReadLimits limits, RunningQuery query, int source) {
    long most = Math.min(limit(query, source), limits.maxRows().orElse(Long.MAX_VALUE));
    return new ReadLimits(OptionalLong.of(most), limits.maxBytes(), limits.least());
  }

  /** The most rows, or files, of the next batch. */
  public long limit(RunningQuery query, int source) {
    if (pace == null) {
      name = String.join(" ", query.nameOfJob(), query.digest(), kind, "#" + source, "@" + targetMillis);
      Long known = KNOWN.get(name);
      pace = new BatchPace(targetMillis, first, known == null ? OptionalLong.empty() : OptionalLong.of(known));
    }
    query.lastBatch().filter(last -> last.id() == batchId).ifPresent(last -> {
      pace.finished(rows, last.rows(), last.millis());
      KNOWN.put(name, pace.limit());
      noteRowMillis(last.millis());
      batchId = NO_BATCH;
    });
    return pace.limit();
  }

  /** The source gives so many rows, or files, to the batch that {@code query} plans. */
  public void planned(RunningQuery query, long rows) {
    this.batchId = query.batchId();
    this.rows = rows;
  }

  /** Whether the batch in hand was planned by this source, so that it is not a repeated one. */
  public boolean hasPlanned(RunningQuery query) {
    return batchId == query.batchId();
  }

  /**
   * What a row of {@code name} cost one Spark task in the last batch of this JVM that had rows of it; infinite before
   * there was one. What a batch takes without rows is not counted.
   */
  public static double rowMillis(String name) {
    return ROW_MILLIS.getOrDefault(name, Double.POSITIVE_INFINITY);
  }

  /** The source's rows of the batch are those of {@code name}, and so many Spark tasks read them at once. */
  public void readBy(String name, int sparkTasks) {
    readOf = name;
    readers = sparkTasks;
  }

  private void noteRowMillis(long millis) {
    if (rows > 0 && !readOf.isEmpty()) {
      double fixed = Math.max(WITHOUT_ROWS_MILLIS, pace.fixedMillis());
      ROW_MILLIS.put(readOf, Math.max(0, millis - fixed) * readers / rows);
    }
  }

  private static <V> Map<String, V> newest() {
    return new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<String, V> eldest) {
        return size() > MOST_KNOWN;
      }
    };
  }

  /** The rows of a batch with these starts and ends. */
  public static long rowsBetween(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    return ends.entrySet().stream().mapToLong(end -> end.getValue() - starts.get(end.getKey())).sum();
  }
}
