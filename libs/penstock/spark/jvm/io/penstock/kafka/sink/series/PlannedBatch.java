package io.penstock.kafka.sink.series;

import java.io.Serializable;

/**
 * A batch that is about to be written.
 *
 * @param runId Spark's id of this run of the query
 * @param partitions the number of Spark partitions with a transaction each; 0: one transaction for all
 */
public record PlannedBatch(String queryId, String runId, long batchId, String offsetsHash, int partitions)
    implements Serializable {
  public Marker marker() {
    return new Marker(queryId, batchId, offsetsHash, partitions);
  }
}
