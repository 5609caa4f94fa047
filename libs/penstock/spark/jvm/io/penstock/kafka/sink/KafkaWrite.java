package io.penstock.kafka.sink;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.options.SinkOptions.TransactionScope;
import io.penstock.kafka.sink.run.SinkRun;
import io.penstock.kafka.sink.run.SinkRuns;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import io.penstock.kafka.sink.write.RecordColumns;
import io.penstock.kafka.sink.write.RowWriterFactory;
import io.penstock.spark42.RunningQuery;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;

/**
 * The write of one micro-batch, on the driver. Spark makes a new one for each batch. The query's own sink is written as a
 * stream; a query with several sinks writes to each by a batch write of the rows of its micro-batch.
 */
final class KafkaWrite implements StreamingWrite, BatchWrite {
  private final SinkOptions options;
  private final RecordColumns columns;
  private final String queryId;
  private String runId;
  private Marker batch;
  private SinkRun run;
  private Decision decision;

  KafkaWrite(SinkOptions options, RecordColumns columns, String queryId) {
    this.options = options;
    this.columns = columns;
    this.queryId = queryId;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return writers(info);
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return writers(info);
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  @Override
  public void onDataWriterCommit(WriterCommitMessage message) {}

  private RowWriterFactory writers(PhysicalWriteInfo info) {
    RunningQuery query = RunningQuery.withId(queryId)
        .orElseThrow(() -> new RetryableSinkException("the query " + queryId + " does not run any more"));
    boolean each = options.scope() == TransactionScope.PARTITION;
    if (each) {
      requireRepeatable(query.sources());
    }
    runId = query.runId();
    batch = Marker.ofBatch(queryId, query.batchId(), query.endOffsets(), each ? info.numPartitions() : 0);
    run = SinkRuns.of(query, options, batch);
    decision = run.start(batch);
    return new RowWriterFactory(options, columns, runId, batch, decision);
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    commit(messages);
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    if (decision == Decision.SKIP) {
      run.skipped(batch);
    } else if (options.scope() == TransactionScope.PARTITION) {
      run.partitionsCommitted(batch, RowWriterFactory.endsOf(messages));
    } else {
      run.commit(batch, Arrays.stream(messages).map(RowWriterFactory::attemptOf).collect(Collectors.toSet()));
    }
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    abort(messages);
  }

  /** Ends the runs of the query, since it ends after a failed batch. */
  @Override
  public void abort(WriterCommitMessage[] messages) {
    SinkRuns.end(runId);
  }

  /**
   * The requirement of scope {@code partition}: a replayed batch has the same rows in the same Spark partitions.
   * Spark's own Kafka source breaks it: after a restart it may plan up to four partitions in another order.
   */
  private static void requireRepeatable(List<SparkDataStream> sources) {
    if (sources.stream().anyMatch(KafkaMicroBatchStream.class::isInstance)) {
      throw new BrokenSinkException(
          "option transactionScope: partition needs sources that plan the partitions of a repeated batch in the same"
              + " order. Spark's format kafka does not: read with format penstock-kafka, which takes the same options"
              + " and continues the same checkpoint");
    }
  }
}
