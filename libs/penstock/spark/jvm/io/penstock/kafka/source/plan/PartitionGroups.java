package io.penstock.kafka.source.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToLongFunction;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;

/**
 * How many Spark tasks read a batch. Spark starts one for each topic partition, and each costs some milliseconds of
 * processor time (Kafka's and Spark's set-up, code of projections), which is most of the cost of a batch of few rows.
 */
public final class PartitionGroups {
  /** A Spark task of its own is worth it for so much work. */
  private static final double WORTH_MILLIS = 150;

  private PartitionGroups() {}

  /**
   * The number of groups: no more than there are partitions, no fewer than {@code threads}, and otherwise one for each
   * {@code WORTH_MILLIS} of the batch. Pure.
   *
   * @param rowMillis what a row costs one Spark task; infinite where that is not known, then there are as many as partitions
   */
  public static int number(int partitions, int threads, long rows, double rowMillis) {
    double wanted = rows == 0 ? 0 : Math.floor(rows * rowMillis / WORTH_MILLIS);
    return (int) Math.max(1, Math.min(partitions, Math.max(threads, wanted)));
  }

  /** The rows of partitions of Spark's Kafka source, by their offsets. */
  public static long rows(InputPartition... partitions) {
    return Arrays.stream(partitions).mapToLong(PartitionGroups::rowsOf).sum();
  }

  /** {@code planned} in so many groups of about as many rows each. With one for each partition they stay as they are. */
  public static InputPartition[] of(InputPartition[] planned, int groups) {
    if (groups >= planned.length) {
      return planned;
    }
    return evenly(Arrays.asList(planned), groups, PartitionGroups::rowsOf).stream()
        .map(PartitionGroup::new).toArray(InputPartition[]::new);
  }

  /** The topic of a partition of Spark's Kafka source. */
  public static String topicOf(InputPartition partition) {
    return ((KafkaBatchInputPartition) partition).offsetRange().topicPartition().topic();
  }

  private static long rowsOf(InputPartition partition) {
    return ((KafkaBatchInputPartition) partition).offsetRange().size();
  }

  /** The largest go first, each to the group that has least. Pure. */
  static <T> List<List<T>> evenly(List<T> parts, int groups, ToLongFunction<T> size) {
    List<List<T>> shared = new ArrayList<>();
    long[] sizes = new long[groups];
    for (int group = 0; group < groups; group++) {
      shared.add(new ArrayList<>());
    }
    List<T> sorted = parts.stream().sorted(Comparator.comparingLong(size).reversed()).toList();
    for (T part : sorted) {
      int least = leastOf(sizes);
      shared.get(least).add(part);
      sizes[least] += size.applyAsLong(part);
    }
    return shared.stream().filter(group -> !group.isEmpty()).toList();
  }

  private static int leastOf(long... sizes) {
    int least = 0;
    for (int group = 1; group < sizes.length; group++) {
      least = sizes[group] < sizes[least] ? group : least;
    }
    return least;
  }
}
