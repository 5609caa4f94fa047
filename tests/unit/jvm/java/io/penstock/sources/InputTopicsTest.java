package io.penstock.sources;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class InputTopicsTest {
  @Test
  void theSourcesOfAnInputAreThoseOfItsTopicsOnItsCluster() {
    InputTopics here = new InputTopics("a|b", null);
    InputTopics there = new InputTopics("a.*", "eu");
    assertTrue(here.areIn("{\"b\":{\"0\":1}}"));
    assertFalse(here.areIn("{\"b@eu\":{\"0\":1}}"));
    assertFalse(here.areIn("{\"ab\":{\"0\":1}}"));
    assertFalse(here.areIn("  "));
    assertTrue(there.areIn("{\"ab@eu\":{\"0\":1}}"));
    assertFalse(there.areIn("{\"ab\":{\"0\":1}}"));
  }

  @Test
  void whatABatchHasReadIsWhatWasThereBefore() {
    InputTopics topics = new InputTopics("a|b", "eu");
    String start = "{\"a@eu\":{\"0\":1},\"gone@eu\":{\"0\":7}}";
    String end = "{\"a@eu\":{\"0\":5},\"b@eu\":{\"0\":3}}";
    var read = new TopicPartition("a", 0);
    assertEquals(Map.of(read, 1L), topics.common(start, end));
    assertEquals(Map.of(read, 5L), topics.common(end, start));
  }
}
