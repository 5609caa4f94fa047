package io.penstock.host;

import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.util.LongAccumulator;

/**
 * What the Spark tasks of each streaming query have used, added up from Spark's executor metrics. Spark hands a query's
 * id down to the stages of its batches, also where a sink starts them on other threads.
 */
public final class QueryUse extends SparkListener {
  private static final Map<String, Used> QUERIES = new ConcurrentHashMap<>();
  private static volatile SparkContext context;
  private final Map<Integer, Used> stages = new ConcurrentHashMap<>();

  private QueryUse() {}

  /** Sums since the query was first seen. Written by the thread of the listener alone, but for the accumulator. */
  static final class Used {
    private final LongAccumulator sourceBytes = new LongAccumulator();
    private volatile long fileBytes;
    volatile long cpuNanos;
    volatile long recordsRead;
    volatile long recordsWritten;
    volatile long bytesWritten;
    volatile long resultBytes;

    private void add(TaskMetrics metrics) {
      cpuNanos += metrics.executorCpuTime() + metrics.executorDeserializeCpuTime();
      recordsRead += metrics.inputMetrics().recordsRead();
      fileBytes += metrics.inputMetrics().bytesRead();
      recordsWritten += metrics.outputMetrics().recordsWritten();
      bytesWritten += metrics.outputMetrics().bytesWritten();
      resultBytes += metrics.resultSize();
    }

    long bytesRead() {
      return fileBytes + sourceBytes.sum();
    }
  }

  static void listen(SparkContext hosts) {
    context = hosts;
    hosts.addSparkListener(new QueryUse());
  }

  /**
   * Where a source adds the bytes that it reads for the query of this thread; Spark's own metric of the tasks is set to
   * what file systems read. Empty when nobody listens, or the thread is not that of a query.
   */
  public static Optional<LongAccumulator> sourceBytes() {
    String queryId = context == null ? null : context.getLocalProperty(StreamExecution.QUERY_ID_KEY());
    return Optional.ofNullable(queryId).map(id -> of(id).sourceBytes);
  }

  static Used of(String queryId) {
    return QUERIES.computeIfAbsent(queryId, QueryUse::fresh);
  }

  private static Used fresh(String queryId) {
    Used used = new Used();
    context.register(used.sourceBytes);
    return used;
  }

  static void forget(String queryId) {
    QUERIES.remove(queryId);
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties properties = event.properties();
    String queryId = properties == null ? null : properties.getProperty(StreamExecution.QUERY_ID_KEY());
    if (queryId != null) {
      stages.put(event.stageInfo().stageId(), of(queryId));
    }
  }

  /** A task that failed has used what it has used, too. */
  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    Used used = stages.get(event.stageId());
    if (used != null && event.taskMetrics() != null) {
      used.add(event.taskMetrics());
    }
  }

  @Override
  public void onStageCompleted(SparkListenerStageCompleted event) {
    stages.remove(event.stageInfo().stageId());
  }
}
