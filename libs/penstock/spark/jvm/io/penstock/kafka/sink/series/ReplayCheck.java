package io.penstock.kafka.sink.series;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Decides by the markers in Kafka whether a batch must be written. Pure. */
public final class ReplayCheck {
  /** What to do with the rows of a batch or of one of its partitions. */
  public enum Decision {
    WRITE,
    SKIP
  }

  private ReplayCheck() {}

  /**
   * Decides for a whole batch.
   *
   * @param whole the driver's marker, which names the newest batch that was one transaction
   * @param parts the markers of Spark partitions
   */
  public static Decision ofBatch(Marker batch, Marker whole, List<Marker> parts) {
    if (names(batch, whole)) {
      return Decision.SKIP;
    }
    List<Marker> written = parts.stream().filter(part -> names(batch, part)).toList();
    if (written.isEmpty()) {
      return Decision.WRITE;
    }
    Set<Integer> counts = written.stream().map(Marker::partitions).collect(Collectors.toCollection(TreeSet::new));
    int before = counts.iterator().next();
    if (counts.size() == 1 && written.size() == before) {
      return Decision.SKIP;
    }
    if (counts.size() == 1 && before == batch.partitions()) {
      return Decision.WRITE;
    }
    throw writtenInPart(batch, written.size(), counts);
  }

  /** Decides for one Spark partition by its own marker alone. */
  public static Decision ofPartition(Marker batch, Optional<Marker> own) {
    if (own.isEmpty() || !names(batch, own.get())) {
      return Decision.WRITE;
    }
    if (own.get().partitions() != batch.partitions()) {
      throw writtenInPart(batch, 1, Set.of(own.get().partitions()));
    }
    return Decision.SKIP;
  }

  /** Whether {@code marker} names exactly this batch. Raises BrokenSinkException for a later batch or other offsets. */
  private static boolean names(Marker batch, Marker marker) {
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

  private static BrokenSinkException writtenInPart(Marker batch, int written, Set<Integer> counts) {
    String now = batch.partitions() == 0 ? "one transaction" : batch.partitions() + " Spark partitions";
    return new BrokenSinkException(
        "batch " + batch.batchId() + " of query " + batch.queryId() + " is in Kafka in part: " + written
            + " of " + counts + " Spark partitions, and now it has " + now + ". Rows may be in other partitions now, so"
            + " set back what decides their number until this batch is done: the master and transactionScope,"
            + " minPartitions or maxRecordsPerPartition of the source, repartition or coalesce in the query");
  }
}
