package io.penstock.kafka.sink;

import java.io.Serializable;

/**
 * A batch about to be written.
 *
 * @param runId Spark's id of this run of the query
 * @param partitions Spark partitions with a transaction each; 0: one transaction for all
 */
record PlannedBatch(String queryId, String runId, long batchId, String offsetsHash, int partitions)
    implements Serializable {
  Marker marker() {
    return new Marker(queryId, batchId, offsetsHash, partitions);
  }
}
