package io.penstock.kafka.sink.series;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.io.Serializable;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * The newest batch of a series in Kafka. A marker is a committed offset of a consumer group, written in the transaction
 * of the batch's rows. The offset is the batch id + 1; the metadata has the other fields.
 *
 * @param queryId Spark's id of the checkpoint
 * @param batchId -1: no batch yet
 * @param offsetsHash the hash of the batch's end offsets
 * @param partitions the number of Spark partitions of the batch; 0: one transaction for all. In the driver's marker the
 *     largest number that a batch of the series ever had
 */
public record Marker(String queryId, long batchId, String offsetsHash, int partitions) implements Serializable {
  private static final String VERSION = "penstock-1";
  private static final int FIELDS = 5;

  public static Marker none(String queryId) {
    return new Marker(queryId, -1, "", 0);
  }

  public Marker withPartitions(int count) {
    return new Marker(queryId, batchId, offsetsHash, count);
  }

  public OffsetAndMetadata toOffset() {
    String text = String.join(";", VERSION, queryId, Long.toString(batchId), offsetsHash, Integer.toString(partitions));
    return new OffsetAndMetadata(batchId + 1, text);
  }

  /** Parses a marker. Raises BrokenSinkException for an offset that another program committed. */
  public static Marker of(String group, OffsetAndMetadata offset) {
    String[] fields = offset.metadata().split(";", -1);
    if (fields.length != FIELDS || !fields[0].equals(VERSION)) {
      throw foreign(group, offset);
    }
    try {
      Marker marker = new Marker(fields[1], Long.parseLong(fields[2]), fields[3], Integer.parseInt(fields[4]));
      if (marker.batchId + 1 != offset.offset()) {
        throw foreign(group, offset);
      }
      return marker;
    } catch (NumberFormatException error) {
      throw foreign(group, offset);
    }
  }

  private static BrokenSinkException foreign(String group, OffsetAndMetadata offset) {
    return new BrokenSinkException(
        "the offset " + offset.offset() + " with metadata '" + offset.metadata() + "' of the consumer group " + group
            + " was not written by this sink: choose a transactionalIdPrefix that no consumer has as its group");
  }
}
