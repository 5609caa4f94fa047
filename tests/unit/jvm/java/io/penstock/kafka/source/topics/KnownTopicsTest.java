package io.penstock.kafka.source.topics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.source.offsets.ClusterNames;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KnownTopicsTest {
  private static final KeyGroups SOME = KeyGroups.of("1-3/4");

  private final KnownTopics known = new KnownTopics("(?!__)(?:a.*)", SOME);

  @Test
  void ofEachTopicTheSamePartitionsAreRead() {
    assertTrue(known.take("a1", 4, true));
    assertTrue(known.take("a2", 4, true));
    assertEquals(Set.of(part("a1", 1), part("a1", 2), part("a2", 1), part("a2", 2)), known.partitions());
  }

  @ParameterizedTest
  @CsvSource({"3, true", "5, true", "4, false"})
  void aTopicIsTakenWholeOrNotAtAll(int partitions, boolean readable) {
    assertFalse(known.take("a", partitions, readable));
    assertEquals(Set.of(), known.partitions());
    assertEquals(Set.of("a"), known.unknown(List.of("a"))); // and is looked at again
  }

  @Test
  void oneThatDoesNotFitIsAskedForSeldom() {
    assertEquals(Set.of("a"), known.unknown(List.of("a")));
    assertTrue(known.refuse("a"));
    assertFalse(known.refuse("a"));
    for (int look = 1; look < KnownTopics.LOOKS_BETWEEN; look++) {
      assertEquals(Set.of("a2"), known.unknown(List.of("a", "a2")));
    }
    assertEquals(Set.of("a", "a2"), known.unknown(List.of("a", "a2")));
  }

  @Test
  void offsetsOfTopicsThatDoNotMatchAnyMoreAreForgottenByABatch() {
    var some = new MatchingTopics("a.*", SOME, 0);
    var intake = new TopicIntake(Optional.of(some), null, null);
    assertTrue(intake.forgets(Map.of(part("a1", 1), 5L, part("b", 1), 5L)));
    assertFalse(intake.forgets(Map.of(part("a1", 1), 5L)));
    assertFalse(new TopicIntake(Optional.empty(), null, null).forgets(Map.of(part("b", 1), 5L)));
  }

  @Test
  void aTopicIsNotedOnceByTheNameOfItsClusterAndItsId(@TempDir Path checkpoint) {
    var names = new ClusterNames(Optional.of("eu"));
    var notes = new TopicNotes(checkpoint + "/sources/0", names, () -> new Configuration(false));
    notes.note("orders-a", new Uuid(1, -1));
    notes.note("orders-a", new Uuid(2, 2));
    assertEquals(List.of("TOPIC-bdbd667de809c6b3113a68823b341835-0000000000000001ffffffffffffffff"), visible(checkpoint));
  }

  @Test
  void onlyNewTopicsOfTheWholePatternAreAskedFor() {
    known.take("a1", 4, true);
    assertEquals(Set.of("a2"), known.unknown(List.of("a1", "a2", "ba", "__a")));
  }

  @Test
  void whatTheQueryHasOffsetsOfStaysUnlessItIsExcluded() {
    known.keep(List.of(part("a9", 1), part("b", 1)));
    assertEquals(Set.of(part("a9", 1), part("a9", 2)), known.partitions());
    assertEquals(Set.of(), known.unknown(List.of("a9")));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "0-4", "4-4/8", "5-4/8", "0-9/8", "-1-2/8", "0-100000/100000", "a-b/c"})
  void aRangeThatIsNoneIsRefusedByName(String text) {
    var error = assertThrows(IllegalArgumentException.class, () -> KeyGroups.of(text));
    assertTrue(error.getMessage().startsWith("option keyGroups: must be partitions such as 0-4/8"));
  }

  @Test
  void keyGroupsGoWithAPatternAndATime() {
    assertTrue(PatternProvider.of(options("subscribePattern", "a.*")).isEmpty());
    assertTrue(PatternProvider.of(options("subscribePattern", "a.*", "keyGroups", "0-4/8")).isPresent());
    assertThrows(IllegalArgumentException.class, () -> PatternProvider.of(options("keyGroups", "0-4/8", "assign", "{}")));
    var every = options("subscribePattern", "a.*", "keyGroups", "0-4/8", "newTopicsMillis", "soon");
    assertThrows(IllegalArgumentException.class, () -> PatternProvider.of(every));
  }

  private static List<String> visible(Path folder) {
    return Stream.of(folder.toFile().list()).filter(name -> !name.startsWith(".")).toList();
  }

  private static CaseInsensitiveStringMap options(String... pairs) {
    Map<String, String> options = new HashMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      options.put(pairs[i], pairs[i + 1]);
    }
    return new CaseInsensitiveStringMap(options);
  }

  private static TopicPartition part(String topic, int partition) {
    return new TopicPartition(topic, partition);
  }
}
