package io.penstock.host;

import io.penstock.spark42.RunningQuery;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.util.LongAccumulator;

/**
 * The resources that the Spark tasks of each streaming query have used, added up from Spark's executor metrics. Spark
 * passes the id of a query to the stages of its batches, also when a sink starts a stage on another thread.
 */
public final class QueryUse extends SparkListener {
  private static final Map<String, Used> QUERIES = new ConcurrentHashMap<>();
  private static volatile SparkContext context;
  private final Map<Integer, Used> stages = new ConcurrentHashMap<>();

  private QueryUse() {}

  /** Sums since the query was first seen. Only the listener's thread writes them, except for the accumulator. */
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

  static void listen(SparkContext sparkContext) {
    context = sparkContext;
    sparkContext.addSparkListener(new QueryUse());
  }

  /**
   * The accumulator to which a source adds the bytes that it reads for the query of this thread. Spark's own metric of
   * its tasks counts file systems only. Empty before {@code listen}, and on a thread that belongs to no query.
   */
  public static Optional<LongAccumulator> sourceBytes() {
    return Optional.ofNullable(context).flatMap(RunningQuery::idOfThisThread).map(id -> of(id).sourceBytes);
  }

  static Used of(String queryId) {
    return QUERIES.computeIfAbsent(queryId, fresh -> {
      Used used = new Used();
      context.register(used.sourceBytes);
      return used;
    });
  }

  static void forget(String queryId) {
    QUERIES.remove(queryId);
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    RunningQuery.idOfStage(event.properties()).ifPresent(id -> stages.put(event.stageInfo().stageId(), of(id)));
  }

  /** Counts failed tasks too: they have used resources as well. */
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
