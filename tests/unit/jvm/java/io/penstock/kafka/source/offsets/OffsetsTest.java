package io.penstock.kafka.source.offsets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Offsets as text, stops, and a leader's boundaries. */
class OffsetsTest {
  private static final String LOG = "v1\n{\"batchWatermarkMs\":0}\n{\"a\":{\"0\":1}}\n{\"b\":{\"0\":7}}";

  @Test
  void offsetsAreReadAndWrittenAsSparkDoes() {
    String text = "{\"a.b\":{\"0\":5,\"12\":9},\"c\":{\"3\":0}}";
    Map<TopicPartition, Long> offsets = OffsetsJson.parse(text, "x");
    assertEquals(9L, offsets.get(new TopicPartition("a.b", 12)));
    assertEquals(3, offsets.size());
    assertEquals(text, OffsetsJson.format(offsets));
    assertEquals(offsets, OffsetsJson.parse(text + " ", "x"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "", "5", "[]", "null", "{\"t\":5}", "{\"t\":null}", "{\"t\":{\"x\":1}}", "{\"t\":{\"0\":\"1\"}}",
        "{\"t\":{\"0\":1.5}}", "{\"t\":{\"0\":null}}", "{"})
  void anythingElseIsRefusedByName(String text) {
    var error = assertThrows(IllegalArgumentException.class, () -> OffsetsJson.parse(text, "option stopAtOffsets"));
    assertTrue(error.getMessage().startsWith("option stopAtOffsets: must be offsets such as"), error.getMessage());
  }

  @Test
  void topicsOfOneNameOnTwoClustersAreToldApart() {
    ClusterNames eu = new ClusterNames(Optional.of("eu"));
    ClusterNames own = new ClusterNames(Optional.empty());
    assertEquals("{\"a\":{\"0\":5}}", own.qualified("{\"a\":{\"0\":5}}"));
    assertEquals("{\"a@eu\":{\"0\":5,\"2\":1,\"10\":9}}", eu.qualified("{\"a\":{\"2\":1,\"10\":9,\"0\":5}}"));
    String all = "{\"a\":{\"0\":1},\"a@eu\":{\"0\":2},\"a@u\":{\"0\":3}}";
    assertEquals(Map.of(new TopicPartition("a", 0), 2L), eu.parse(all, "x"));
    assertEquals(Map.of(new TopicPartition("a", 0), 1L), own.parse(all, "x"));
    var start = new TopicPartition("a", 0);
    assertEquals(Map.of(start, 2L), Cuts.bound(all, eu, Map.of(start, 0L), Map.of(start, 9L)));
    assertEquals(Map.of(start, 1L), Cuts.bound(all, own, Map.of(start, 0L), Map.of(start, 9L)));
  }

  @Test
  void aStopBoundsWhatIsLongerAndWaitsForTheRest() {
    StopOffsets stop = new StopOffsets(offsets(10, 20));
    assertEquals(offsets(10, 15), stop.bound(offsets(0, 0), offsets(12, 15)));
    assertEquals(offsets(10, 20), stop.bound(offsets(10, 20), offsets(99, 99)));
  }

  @Test
  void aStopThatCannotBeKeptIsRefused() {
    StopOffsets stop = new StopOffsets(offsets(10));
    assertThrows(IllegalStateException.class, () -> stop.bound(offsets(0, 0), offsets(5, 5)));
    assertThrows(IllegalStateException.class, () -> stop.bound(offsets(11), offsets(15)));
  }

  @Test
  void aFollowerGoesFromBoundaryToBoundary() {
    var log = log(0, offsets(5, 1), offsets(9, 3), offsets(9, 8));
    assertEquals(Optional.of(offsets(5, 1)), LeaderOffsetLog.next(log, offsets(0, 0)));
    assertEquals(Optional.of(offsets(9, 3)), LeaderOffsetLog.next(log, offsets(5, 1)));
    assertEquals(Optional.of(offsets(9, 8)), LeaderOffsetLog.next(log, offsets(9, 3)));
    assertEquals(Optional.empty(), LeaderOffsetLog.next(log, offsets(9, 8)));
  }

  @Test
  void aFollowerBetweenBoundariesTakesTheFirstThatIsNowhereBehind() {
    var log = log(0, offsets(5, 1), offsets(9, 3), offsets(9, 8));
    assertEquals(Optional.of(offsets(9, 3)), LeaderOffsetLog.next(log, offsets(4, 2)));
    assertEquals(Optional.of(offsets(9, 8)), LeaderOffsetLog.next(log, offsets(4, 4)));
    assertEquals(Optional.empty(), LeaderOffsetLog.next(log, offsets(10, 0)));
  }

  @Test
  void aPurgedLogIsFollowedOnlyFromABoundaryThatIsKept() {
    var log = log(7, offsets(5, 1), offsets(9, 3));
    assertEquals(Optional.of(offsets(9, 3)), LeaderOffsetLog.next(log, offsets(5, 1)));
    var error = assertThrows(IllegalStateException.class, () -> LeaderOffsetLog.next(log, offsets(4, 1)));
    assertTrue(error.getMessage().contains("oldest batch is 7"), error.getMessage());
  }

  @Test
  void otherPartitionsThanTheLeadersAreRefused() {
    var log = log(0, offsets(5));
    assertThrows(IllegalStateException.class, () -> LeaderOffsetLog.next(log, offsets(0, 0)));
  }

  @Test
  void aSourceIsALineOfTheLog() {
    assertEquals(Map.of(new TopicPartition("b", 0), 7L), LeaderOffsetLog.sourceEnds(LOG, 1, "batch 0"));
    assertThrows(IllegalStateException.class, () -> LeaderOffsetLog.sourceEnds(LOG, 2, "batch 0"));
    assertThrows(IllegalStateException.class, () -> LeaderOffsetLog.sourceEnds("v2\n{}\n{}", 0, "batch 0"));
    assertThrows(IllegalStateException.class, () -> LeaderOffsetLog.sourceEnds("", 0, "batch 0"));
  }

  private static Map<TopicPartition, Long> offsets(long... values) {
    Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
    for (int partition = 0; partition < values.length; partition++) {
      offsets.put(new TopicPartition("t", partition), values[partition]);
    }
    return offsets;
  }

  @SafeVarargs
  private static TreeMap<Long, Map<TopicPartition, Long>> log(long first, Map<TopicPartition, Long>... ends) {
    TreeMap<Long, Map<TopicPartition, Long>> log = new TreeMap<>();
    for (Map<TopicPartition, Long> end : ends) {
      log.put(first + log.size(), end);
    }
    return log;
  }
}
