package io.penstock.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.penstock.kafka.source.plan.PartitionOrder;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.junit.jupiter.api.Test;
import scala.Option;

class BalancedStreamTest {
  private static final List<InputPartition> ORDERED = List.of(
      part("a", 0, 5), part("a", 0, 10), part("a", 2, 0), part("a", 10, 7), part("b", 0, 1), part("b", 1, 0));

  @Test
  void whateverOrderSparkPlansInTheSameComesOut() {
    for (int seed = 0; seed < 20; seed++) {
      List<InputPartition> planned = Arrays.asList(ORDERED.toArray(InputPartition[]::new));
      Collections.shuffle(planned, new Random(seed));
      assertEquals(ORDERED, List.of(PartitionOrder.of(planned.toArray(InputPartition[]::new))));
    }
  }

  @Test
  void theSameOffsetInAnotherTextDiffersAndReadsAlike() {
    String once = RewrittenOffset.otherTextOf("{\"t\":{\"0\":1}}");
    assertEquals("{\"t\":{\"0\":1}} ", once);
    assertEquals("{\"t\":{\"0\":1}}", RewrittenOffset.otherTextOf(once));
  }

  private static InputPartition part(String topic, int partition, long from) {
    KafkaOffsetRange range = new KafkaOffsetRange(new TopicPartition(topic, partition), from, from + 5, Option.empty());
    return new KafkaBatchInputPartition(range, Map.of(), 1000, true, false);
  }
}
