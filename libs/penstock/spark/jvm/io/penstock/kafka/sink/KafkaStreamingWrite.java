package io.penstock.kafka.sink;

import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.options.TransactionScope;
import io.penstock.kafka.sink.run.SinkRun;
import io.penstock.kafka.sink.run.SinkRuns;
import io.penstock.kafka.sink.series.PlannedBatch;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import io.penstock.kafka.sink.write.RecordColumns;
import io.penstock.kafka.sink.write.RowWriterFactory;
import io.penstock.kafka.sink.write.WrittenAttempt;
import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** The write of one micro-batch, on the driver. Spark makes a new one for each batch. */
final class KafkaStreamingWrite implements StreamingWrite {
  private final SinkOptions options;
  private final RecordColumns columns;
  private final String queryId;
  private PlannedBatch batch;
  private SinkRun run;
  private Decision decision;

  KafkaStreamingWrite(SinkOptions options, RecordColumns columns, String queryId) {
    this.options = options;
    this.columns = columns;
    this.queryId = queryId;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    boolean each = options.scope() == TransactionScope.PARTITION;
    batch = CurrentBatch.of(queryId, each ? info.numPartitions() : 0);
    run = SinkRuns.of(batch.runId(), options);
    decision = run.start(batch);
    return new RowWriterFactory(options, columns, batch, decision);
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    if (decision == Decision.SKIP) {
      run.skipped();
    } else if (options.scope() == TransactionScope.PARTITION) {
      run.partitionsCommitted(batch);
    } else {
      run.commit(batch, attempts(messages));
    }
  }

  /** Ends the run, since the query ends after a failed batch. */
  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    SinkRuns.end(batch.runId());
  }

  private static Set<Long> attempts(WriterCommitMessage[] messages) {
    return Arrays.stream(messages)
        .map(message -> ((WrittenAttempt) message).attempt())
        .collect(Collectors.toSet());
  }
}
