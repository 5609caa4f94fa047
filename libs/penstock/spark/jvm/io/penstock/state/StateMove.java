package io.penstock.state;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import scala.Option;

/**
 * Moves the state of some tasks to others, row by row through Spark's state stores, whatever keeps them.
 *
 * <p>Rows of a store go to the task that has their key group, and there to the partition that Spark's shuffle brings
 * their key to. Old stores are read by several threads; a new store takes rows of one at a time.
 */
public final class StateMove {
  private final List<TaskState> from = new ArrayList<>();
  private final List<TaskState> to = new ArrayList<>();
  private final int threads;

  public StateMove(int threads) {
    this.threads = threads;
  }

  /** An old task: the state that its batch {@code batch} left, of key groups {@code lowest} to {@code end - 1}. */
  public void addOld(SparkSession session, String checkpoint, int partitions, long batch, int lowest, int end) {
    from.add(new TaskState(session, checkpoint, partitions, batch + 1, lowest, end));
  }

  /** A new task, whose state will be that after its batch 0. */
  public void addNew(SparkSession session, String checkpoint, int partitions, int lowest, int end) {
    to.add(new TaskState(session, checkpoint, partitions, 1, lowest, end));
  }

  /**
   * Moves one store of one operator. The tally of the old rows, as JSON (see {@link Tally}).
   *
   * <p>Throws {@link UnmovableStateException} when an old task has a row that is not of its key groups.
   */
  public String move(
      long operator, String operatorName, String name, int prefixColumns, int formatVersion, String function,
      int keyGroups, List<Integer> places) throws Exception {
    StoreLayout layout =
        StoreLayout.read(new Store(operator, operatorName, name, prefixColumns, formatVersion), from.get(0));
    KeyFunction keys = new KeyFunction(function, keyGroups, places);
    try (NewStores target = new NewStores(layout, to, keyGroups)) {
      Tally tally = forEachPartition(from, keyGroups, (task, partition) -> {
        Tally own = new Tally(keyGroups);
        KeyFunction.Router router = keys.router(layout.partitionKeys().partitionKeySchema(), to.get(0).partitions);
        scan(layout, task, partition, router, (keyGroup, row) -> {
          requireOwn(task, keyGroup, row, layout);
          own.add(keyGroup, row.key(), row.value());
          target.put(keyGroup, router.partition(), row);
        });
        return own;
      });
      target.commit(threads);
      return tally.toJson();
    }
  }

  /**
   * Reads one store of the new tasks again. Their tally, as JSON.
   *
   * <p>Throws IllegalStateException when a row is not in the task or the partition that it belongs to.
   */
  public String verify(
      long operator, String operatorName, String name, int prefixColumns, int formatVersion, String function,
      int keyGroups, List<Integer> places) throws Exception {
    StoreLayout layout =
        StoreLayout.read(new Store(operator, operatorName, name, prefixColumns, formatVersion), from.get(0));
    KeyFunction keys = new KeyFunction(function, keyGroups, places);
    return forEachPartition(to, keyGroups, (task, partition) -> {
      Tally own = new Tally(keyGroups);
      KeyFunction.Router router = keys.router(layout.partitionKeys().partitionKeySchema(), task.partitions);
      scan(layout, task, partition, router, (keyGroup, row) -> {
        if (!task.has(keyGroup) || router.partition() != partition) {
          throw new IllegalStateException("a row of " + layout.store() + " is in the wrong place after the move");
        }
        own.add(keyGroup, row.key(), row.value());
      });
      return own;
    }).toJson();
  }

  @FunctionalInterface
  private interface PartitionWork {
    Tally run(TaskState task, int partition) throws Exception;
  }

  @FunctionalInterface
  private interface RowWork {
    void take(int keyGroup, UnsafeRowPair row);
  }

  private Tally forEachPartition(List<TaskState> tasks, int keyGroups, PartitionWork work) throws Exception {
    List<Callable<Tally>> calls = new ArrayList<>();
    for (TaskState task : tasks) {
      for (int partition = 0; partition < task.partitions; partition++) {
        int number = partition;
        calls.add(() -> work.run(task, number));
      }
    }
    Tally total = new Tally(keyGroups);
    inParallel(threads, calls).forEach(total::add);
    return total;
  }

  static <T> List<T> inParallel(int threads, List<Callable<T>> calls) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<T> results = new ArrayList<>();
      for (Future<T> future : pool.invokeAll(calls)) {
        results.add(future.get());
      }
      return results;
    } catch (ExecutionException error) {
      throw error.getCause() instanceof Exception cause ? cause : error;
    } finally {
      pool.shutdownNow();
    }
  }

  private static void scan(
      StoreLayout layout, TaskState task, int partition, KeyFunction.Router router, RowWork work) {
    StatePartitionKeyExtractor partitionKeys = layout.partitionKeys();
    StateStoreProvider provider = task.open(layout, partition);
    try {
      ReadStateStore store = provider.getReadStore(task.version, Option.empty());
      try (StateStoreIterator<UnsafeRowPair> rows = store.iterator(StoreLayout.COLUMN_FAMILY)) {
        while (rows.hasNext()) {
          UnsafeRowPair row = rows.next();
          router.at(partitionKeys.partitionKey(row.key()));
          work.take(router.keyGroup(), row);
        }
      } finally {
        store.abort();
      }
    } finally {
      provider.close();
    }
  }

  private static void requireOwn(TaskState task, int keyGroup, UnsafeRowPair row, StoreLayout layout) {
    if (!task.has(keyGroup)) {
      throw new UnmovableStateException(
          "the state of operator " + layout.store().operator() + " has the key " + text(row.key(), layout)
              + " of key group " + keyGroup + " in the task of key groups " + task.lowestKeyGroup + " to "
              + (task.endOfKeyGroups - 1) + ": the input is not keyed as key_function and key_columns say, or has"
              + " records with a null key, which the query should filter");
    }
  }

  private static String text(UnsafeRow key, StoreLayout layout) {
    return key.toSeq(layout.keySchema()).mkString("(", ", ", ")");
  }
}
