package io.penstock.kafka.source;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import scala.jdk.javaapi.CollectionConverters;

/** The query that runs on this thread, by way of Spark's internals, which are public in byte code. */
final class RunningQuery {
  private final MicroBatchExecution execution;

  private RunningQuery(MicroBatchExecution execution) {
    this.execution = execution;
  }

  /** Empty when the thread is not that of a query of micro-batches. */
  static Optional<RunningQuery> current() {
    scala.Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty()) {
      return Optional.empty();
    }
    String id = session.get().sparkContext().getLocalProperty(StreamExecution.QUERY_ID_KEY());
    if (id == null) {
      return Optional.empty();
    }
    StreamExecution query = session.get().sharedState().activeStreamingQueries().get(UUID.fromString(id));
    return query instanceof MicroBatchExecution batches ? Optional.of(new RunningQuery(batches)) : Optional.empty();
  }

  boolean isStopping() {
    return StoppingQueries.has(execution.runId());
  }

  List<SparkDataStream> sources() {
    return CollectionConverters.asJava(execution.sources());
  }

  long watermarkMillis() {
    return execution.watermarkTracker().currentWatermark();
  }

  /**
   * Sets it for the batch that is about to be made, if Spark or the source finds cause to make one. Spark has looked
   * for such cause before, and keeps the watermark that it had then, which must not differ: that is forgotten first.
   */
  void setWatermark(long millis) {
    IncrementalExecution last = execution.lastExecution();
    if (last != null) {
      last.watermarkPropagator().purge(last.currentBatchId() + 1);
    }
    execution.watermarkTracker().setWatermark(millis);
  }

  /** Whether a batch ran since the query was started: only then Spark looks whether the watermark calls for another. */
  boolean hasRunBatches() {
    return execution.lastExecution() != null;
  }

  /** Whether any operator keeps rows that a later watermark could let go. True while that is unknown. */
  boolean mayHoldState() {
    StreamingQueryProgress progress = execution.lastProgress();
    if (progress == null || !hasRunBatches()) {
      return true;
    }
    return Arrays.stream(progress.stateOperators()).mapToLong(StateOperatorProgress::numRowsTotal).sum() > 0;
  }
}
