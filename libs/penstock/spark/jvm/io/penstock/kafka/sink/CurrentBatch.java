package io.penstock.kafka.sink;

import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.series.OffsetsHash;
import io.penstock.kafka.sink.series.PlannedBatch;
import io.penstock.spark42.RunningQuery;

/** The batch that a running query is about to write. Known on the driver only. */
final class CurrentBatch {
  private CurrentBatch() {}

  /**
   * The current batch of the query {@code queryId}.
   *
   * @param partitions Spark partitions with a transaction each; 0: one transaction for the whole batch
   */
  static PlannedBatch of(String queryId, int partitions) {
    RunningQuery query = RunningQuery.withId(queryId)
        .orElseThrow(() -> new RetryableSinkException("the query " + queryId + " does not run any more"));
    if (partitions > 0) {
      RepeatableSources.require(query.sources());
    }
    return new PlannedBatch(
        queryId, query.runId(), query.batchId(), OffsetsHash.of(query.endOffsets()), partitions);
  }
}
