package io.penstock.kafka.sink.series;

import static io.penstock.kafka.sink.series.ReplayCheck.Decision.SKIP;
import static io.penstock.kafka.sink.series.ReplayCheck.Decision.WRITE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ReplayCheckTest {
  private static final String QUERY = "q";
  private static final Marker NONE = Marker.none(QUERY);

  @ParameterizedTest
  @CsvSource({"-1,WRITE", "3,WRITE", "4,WRITE", "5,SKIP"})
  void aBatchInOneTransactionIsWrittenUnlessItsMarkerIsThere(long newest, Decision expected) {
    assertEquals(expected, ReplayCheck.ofBatch(batch(0), marker(newest, 0), List.of()));
  }

  @ParameterizedTest
  @CsvSource({"5,h", "6,h", "5,other"})
  void theMarkerOfAnotherQueryIsNoMarker(long newest, String hash) {
    Marker other = new Marker("another", newest, hash, 2);
    assertEquals(WRITE, ReplayCheck.ofBatch(batch(2), other, List.of(other, other)));
    assertEquals(WRITE, ReplayCheck.ofPartition(batch(2), Optional.of(other)));
  }

  /** Letters are the markers of Spark partitions: n(ewest) has the batch, o(lder) the one before, - none. */
  @ParameterizedTest
  @CsvSource({
    "---,3,3,WRITE", "ooo,3,3,WRITE", "ooo,3,5,WRITE", "ooo,3,0,WRITE",
    "nnn,3,3,SKIP", "nnn,3,2,SKIP", "nnn,3,8,SKIP", "nnn,3,0,SKIP", "nnno,3,3,SKIP",
    "noo,3,3,WRITE", "-n-,3,3,WRITE"})
  void partitionsDecideTogether(String markers, int before, int now, Decision expected) {
    assertEquals(expected, ReplayCheck.ofBatch(batch(now), NONE, parts(markers, before)));
  }

  @ParameterizedTest
  @CsvSource({"noo,3,2", "noo,3,8", "nno,3,0"})
  void aBatchInKafkaInPartIsOnlyFinishedByAsManyPartitions(String markers, int before, int now) {
    assertFails("set back what decides their number", batch(now), NONE, parts(markers, before));
  }

  @Test
  void partitionsOfTwoTriesAreNotACompleteBatch() {
    assertFails("in Kafka in part", batch(2), NONE, List.of(marker(5, 2), marker(5, 3)));
  }

  @Test
  void aNewerMarkerMeansThatTheCheckpointWentBack() {
    assertFails("went back in time", batch(0), marker(6, 0), List.of());
    assertFails("went back in time", batch(2), NONE, List.of(marker(6, 2)));
  }

  @Test
  void theSameBatchWithOtherOffsetsIsAnError() {
    Marker other = new Marker(QUERY, 5, "another", 0);
    assertFails("is in Kafka with other offsets", batch(0), other, List.of());
    assertFails("is in Kafka with other offsets", batch(2), NONE, List.of(other));
  }

  @Test
  void onePartitionDecidesByItsOwnMarker() {
    assertEquals(WRITE, ReplayCheck.ofPartition(batch(3), Optional.empty()));
    assertEquals(WRITE, ReplayCheck.ofPartition(batch(3), Optional.of(marker(4, 8))));
    assertEquals(SKIP, ReplayCheck.ofPartition(batch(3), Optional.of(marker(5, 3))));
    Optional<Marker> ofAnotherTry = Optional.of(marker(5, 8));
    assertThrows(BrokenSinkException.class, () -> ReplayCheck.ofPartition(batch(3), ofAnotherTry));
  }

  private static void assertFails(String words, Marker batch, Marker whole, List<Marker> parts) {
    BrokenSinkException error =
        assertThrows(BrokenSinkException.class, () -> ReplayCheck.ofBatch(batch, whole, parts));
    assertTrue(error.getMessage().contains(words), error.getMessage());
  }

  private static Marker batch(int partitions) {
    return marker(5, partitions);
  }

  private static Marker marker(long batchId, int partitions) {
    return new Marker(QUERY, batchId, "h", partitions);
  }

  private static List<Marker> parts(String markers, int partitions) {
    List<Marker> parts = new ArrayList<>();
    for (int index = 0; index < markers.length(); index++) {
      if (markers.charAt(index) != '-') {
        parts.add(marker(markers.charAt(index) == 'n' ? 5 : 4, partitions));
      }
    }
    return parts;
  }
}
