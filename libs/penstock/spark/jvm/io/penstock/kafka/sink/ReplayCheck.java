package io.penstock.kafka.sink;

import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Whether a batch is to be written, by the markers that are in Kafka: the pure decision. */
final class ReplayCheck {
  /** What to do with the rows of a batch, or of one partition of it. */
  enum Decision {
    WRITE,
    SKIP
  }

  private ReplayCheck() {}

  /**
   * Of a whole batch.
   *
   * @param whole the driver's marker: of the newest batch in one transaction
   * @param parts the markers of Spark partitions, by number
   */
  static Decision ofBatch(PlannedBatch batch, Marker whole, Map<Integer, Marker> parts) {
    if (ofOne(batch, whole)) {
      return Decision.SKIP;
    }
    Map<Integer, Marker> written = parts.entrySet().stream()
        .filter(part -> ofOne(batch, part.getValue()))
        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    if (written.isEmpty()) {
      return Decision.WRITE;
    }
    Set<Integer> counts = counts(written.values());
    int before = counts.iterator().next();
    if (counts.size() == 1 && written.size() == before) {
      return Decision.SKIP;
    }
    if (counts.size() == 1 && before == batch.partitions()) {
      return Decision.WRITE;
    }
    throw writtenInPart(batch, written.size(), counts);
  }

  /** Of one Spark partition, by its own marker alone. */
  static Decision ofPartition(PlannedBatch batch, Optional<Marker> own) {
    if (own.isEmpty() || !ofOne(batch, own.get())) {
      return Decision.WRITE;
    }
    if (own.get().partitions() != batch.partitions()) {
      throw writtenInPart(batch, 1, Set.of(own.get().partitions()));
    }
    return Decision.SKIP;
  }

  /** Whether {@code marker} is of this very batch; markers of other queries and older batches are not. */
  private static boolean ofOne(PlannedBatch batch, Marker marker) {
    if (!marker.queryId().equals(batch.queryId()) || marker.batchId() < batch.batchId()) {
      return false;
    }
    if (marker.batchId() > batch.batchId()) {
      throw new BrokenSinkException(
          "the checkpoint went back in time: Kafka has batch " + marker.batchId() + " of query " + batch.queryId()
              + ", and batch " + batch.batchId() + " is to be written. Restore the newer checkpoint; or start with a"
              + " new one, and the rows since then are written again");
    }
    if (!marker.offsetsHash().equals(batch.offsetsHash())) {
      throw new BrokenSinkException(
          "batch " + batch.batchId() + " of query " + batch.queryId() + " is in Kafka with other offsets (hash "
              + marker.offsetsHash() + ", now " + batch.offsetsHash() + "): its offset log was changed or lost since."
              + " Restore the checkpoint; or start with a new one, and the rows since then are written again");
    }
    return true;
  }

  private static Set<Integer> counts(Collection<Marker> markers) {
    return markers.stream().map(Marker::partitions).collect(Collectors.toCollection(TreeSet::new));
  }

  private static BrokenSinkException writtenInPart(PlannedBatch batch, int written, Set<Integer> counts) {
    String now = batch.partitions() == 0 ? "one transaction" : batch.partitions() + " Spark partitions";
    return new BrokenSinkException(
        "batch " + batch.batchId() + " of query " + batch.queryId() + " is in Kafka in part: " + written
            + " of " + counts + " Spark partitions, and now it has " + now + ". Rows may be in other partitions now, so"
            + " set back what decides their number until this batch is done: the master and transactionScope,"
            + " minPartitions or maxRecordsPerPartition of the source, repartition or coalesce in the query");
  }
}
