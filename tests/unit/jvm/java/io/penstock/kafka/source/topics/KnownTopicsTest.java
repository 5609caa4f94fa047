package io.penstock.kafka.source.topics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
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
