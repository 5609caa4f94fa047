package io.penstock.spark42;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingAlgorithm;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * The order in which scheduler pools get a free core: the one with the fewest running tasks first, as in Spark; of those
 * with as many, the one whose oldest waiting job is the oldest.
 *
 * <p>Spark's {@code FairSchedulingAlgorithm} compares their names in that case. Where the queries of a host want more
 * than its cores, most pools have no running task: the first names then get all cores, and the jobs of the last names
 * never run. All pools of a host have Spark's default weight and no minimal share.
 */
public final class OldestJobFirst implements SchedulingAlgorithm {
  static final SparkField ALGORITHM = new SparkField(Pool.class, "taskSetSchedulingAlgorithm");

  /** Uses this order in a host. Raises IllegalStateException when Spark has another scheduler than it is made for. */
  public static void install(SparkContext context) {
    ALGORITHM.set(((TaskSchedulerImpl) context.taskScheduler()).rootPool(), new OldestJobFirst());
  }

  /** Whether {@code first} comes before {@code second}. The scheduler changes neither while it sorts. */
  @Override
  public boolean comparator(Schedulable first, Schedulable second) {
    if (first.runningTasks() != second.runningTasks()) {
      return first.runningTasks() < second.runningTasks();
    }
    int byJob = Integer.compare(oldestJob(first), oldestJob(second));
    return byJob != 0 ? byJob < 0 : first.name().compareTo(second.name()) < 0;
  }

  /** The priority of a set of tasks is the number of its job. */
  private static int oldestJob(Schedulable pool) {
    return pool.schedulableQueue().stream().mapToInt(Schedulable::priority).min().orElse(Integer.MAX_VALUE);
  }
}
