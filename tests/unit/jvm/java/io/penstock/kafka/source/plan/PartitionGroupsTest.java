package io.penstock.kafka.source.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class PartitionGroupsTest {
  private static final int PARTITIONS = 8;

  @Test
  void aBatchOfFewQuickRowsIsReadByAsManySparkTasksAsTheTaskHasThreads() {
    assertEquals(1, PartitionGroups.number(PARTITIONS, 1, 100, 1));
    assertEquals(2, PartitionGroups.number(PARTITIONS, 2, 100, 1));
  }

  @Test
  void rowsThatTakeLongAreSharedByMoreOfThemUpToOneForEachPartition() {
    assertEquals(6, PartitionGroups.number(PARTITIONS, 1, 1000, 1));
    assertEquals(5, PartitionGroups.number(PARTITIONS, 1, 10, 75));
    assertEquals(PARTITIONS, PartitionGroups.number(PARTITIONS, 1, 1_000_000, 1));
  }

  @Test
  void eachPartitionStaysWhereNothingIsKnownOrThereAreMoreThreads() {
    assertEquals(PARTITIONS, PartitionGroups.number(PARTITIONS, 1, 5, Double.POSITIVE_INFINITY));
    assertEquals(PARTITIONS, PartitionGroups.number(PARTITIONS, 200, 5, 1));
    assertEquals(1, PartitionGroups.number(0, 4, 0, 1));
    assertEquals(1, PartitionGroups.number(PARTITIONS, 1, 0, Double.POSITIVE_INFINITY));
  }

  @Test
  void everyPartIsInOneGroupAndNoGroupHasMoreThanTheLargestPartBeyondAnother() {
    Random random = new Random(7);
    for (int round = 0; round < 200; round++) {
      List<Long> parts = random.longs(1 + random.nextInt(40), 0, 100).boxed().toList();
      int groups = 1 + random.nextInt(parts.size());
      List<List<Long>> shared = PartitionGroups.evenly(parts, groups, Long::longValue);
      List<Long> all = new ArrayList<>(shared.stream().flatMap(List::stream).toList());
      Collections.sort(all);
      assertEquals(parts.stream().sorted().toList(), all);
      List<Long> sums = shared.stream().map(group -> group.stream().mapToLong(Long::longValue).sum()).toList();
      assertTrue(Collections.max(sums) - Collections.min(sums) <= Collections.max(parts), sums + " of " + parts);
    }
  }
}
