package io.penstock.kafka.sink.series;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.commons.codec.digest.DigestUtils;
import org.apache.commons.lang3.math.NumberUtils;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * A batch of a series: one that is about to be written, or the newest one in Kafka. There a marker is a committed
 * offset of a consumer group, written in the transaction of the batch's rows. The offset is the batch id + 1; the
 * metadata has the other fields.
 *
 * @param queryId Spark's id of the checkpoint
 * @param batchId -1: no batch yet
 * @param offsetsHash the hash of the batch's end offsets: 32 hexadecimal characters
 * @param partitions the number of Spark partitions of the batch; 0: one transaction for all. In the driver's marker the
 *     largest number that a batch of the series ever had
 */
public record Marker(String queryId, long batchId, String offsetsHash, int partitions) implements Serializable {
  private static final String VERSION = "penstock-1";
  private static final int FIELDS = 5;
  private static final int HASH_CHARACTERS = 32;

  /** {@code endOffsets}: the ends of the sources in the order of the query. A repeated batch has the same. */
  public static Marker ofBatch(String queryId, long batchId, List<String> endOffsets, int partitions) {
    String sized = endOffsets.stream()
        .map(text -> text.getBytes(StandardCharsets.UTF_8).length + ":" + text)
        .collect(Collectors.joining());
    return new Marker(queryId, batchId, DigestUtils.sha256Hex(sized).substring(0, HASH_CHARACTERS), partitions);
  }

  public static Marker none(String queryId) {
    return new Marker(queryId, -1, "", 0);
  }

  public Marker withPartitions(int count) {
    return new Marker(queryId, batchId, offsetsHash, count);
  }

  public OffsetAndMetadata toOffset() {
    return new OffsetAndMetadata(batchId + 1, text());
  }

  /** Parses a marker. Raises BrokenSinkException for an offset that another program committed. */
  public static Marker of(String group, OffsetAndMetadata offset) {
    String[] fields = offset.metadata().split(";", -1);
    if (fields.length == FIELDS) {
      Marker marker = new Marker(fields[1], NumberUtils.toLong(fields[2]), fields[3], NumberUtils.toInt(fields[4]));
      if (marker.text().equals(offset.metadata()) && marker.batchId + 1 == offset.offset()) {
        return marker;
      }
    }
    throw new BrokenSinkException(
        "the offset " + offset.offset() + " with metadata '" + offset.metadata() + "' of the consumer group " + group
            + " was not written by this sink: choose a transactionalIdPrefix that no consumer has as its group");
  }

  private String text() {
    return String.join(";", VERSION, queryId, Long.toString(batchId), offsetsHash, Integer.toString(partitions));
  }
}
