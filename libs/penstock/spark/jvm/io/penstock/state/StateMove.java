package io.penstock.state;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import scala.Option;
import scala.collection.Iterator;

/**
 * Moves the state of old tasks to new tasks, row by row. It reads and writes through Spark's state stores, so it works
 * for every kind of store.
 *
 * <p>A row goes to the task that has its key group, and there to the partition to which Spark's shuffle would send its
 * key. Several threads read old stores; only one thread at a time writes to a new store.
 */
public final class StateMove {
  private final List<TaskState> from = new ArrayList<>();
  private final List<TaskState> to = new ArrayList<>();
  private final int threads;
  private final LongAdder moved = new LongAdder();

  public StateMove(int threads) {
    this.threads = threads;
  }

  /**
   * Adds an old task with its state after batch {@code batch}. It has the key groups {@code lowest} to {@code end - 1}.
   */
  public void addOld(SparkSession session, String checkpoint, int partitions, long batch, int lowest, int end) {
    from.add(TaskState.of(session, checkpoint, partitions, batch + 1, lowest, end));
  }

  /** Adds a new task, whose stores get or have the version {@code version}. */
  public void addNew(SparkSession session, String checkpoint, int partitions, long version, int lowest, int end) {
    to.add(TaskState.of(session, checkpoint, partitions, version, lowest, end));
  }

  /** The function that gives the key group of a row: see {@link KeyFunction}. */
  public KeyFunction keys(String function, int keyGroups, List<Integer> places) {
    return new KeyFunction(function, keyGroups, places);
  }

  /** Reads the layout of a {@link StoreLayout.Store} from the first old task's checkpoint. */
  public StoreLayout layout(
      long operator, String operatorName, String name, int prefixColumns, int formatVersion, String properties,
      List<String> schemaFiles) {
    StoreLayout.Store store = new StoreLayout.Store(
        operator, operatorName, name, prefixColumns, formatVersion, properties, List.copyOf(schemaFiles));
    return StoreLayout.read(store, from.get(0));
  }

  /**
   * Moves one store of one operator into new stores, as their version 1. Returns the tally of the old rows as JSON (see {@link Tally}).
   *
   * <p>Throws {@link UnmovableStateException} when an old task has a row of a key group that is not its own.
   */
  public String move(StoreLayout layout, KeyFunction keys) throws Exception {
    try (NewStores target = new NewStores(layout, to, keys.count())) {
      Tally tally = forEachPartition(from, keys.count(), (task, partition, own) ->
          new Scan(layout, keys, to.get(0).partitions(), (family, router, key, value) -> {
            StoreLayout.Family of = layout.families().get(family);
            requireOwn(task, router, key, of);
            own.add(router.keyGroup(), family, key, value);
            if (!target.put(router, of, key, value, task)) {
              throw severalHave(key, of);
            }
            moved.increment();
          }).run(task, partition));
      target.commit(threads);
      return tally.toJson();
    }
  }

  /** The rows that were moved by now. */
  public long moved() {
    return moved.sum();
  }

  /**
   * Reads one store of the new tasks. Returns the tally of their rows as JSON.
   *
   * <p>Throws IllegalStateException when a row is not in the task or the partition that it belongs to.
   */
  public String verify(StoreLayout layout, KeyFunction keys) throws Exception {
    return forEachPartition(to, keys.count(), (task, partition, own) ->
        new Scan(layout, keys, task.partitions(), (family, router, key, value) -> {
          requirePlace(layout, task, partition, router);
          own.add(router.keyGroup(), family, key, value);
        }).run(task, partition)).toJson();
  }

  /** Reads one store of the old tasks. Returns the tally of their rows as JSON. */
  public String tally(StoreLayout layout, KeyFunction keys) throws Exception {
    return forEachPartition(from, keys.count(), (task, partition, own) ->
        new Scan(layout, keys, to.get(0).partitions(), (family, router, key, value) -> {
          requireOwn(task, router, key, layout.families().get(family));
          own.add(router.keyGroup(), family, key, value);
        }).run(task, partition)).toJson();
  }

  /** Whether {@link #change} can bring the changes of this store. */
  public boolean hasPlainChanges(StoreLayout layout) {
    return layout.hasPlainChanges();
  }

  /**
   * Writes the changes of one store since the versions {@code since} (by old task) into the new stores, as their next
   * version. They must already hold everything before.
   *
   * <p>Returns the tally of the changes as JSON, the last one of each key. Throws an exception when a file of changes is
   * missing, or a key may be in several old tasks.
   */
  public String change(StoreLayout layout, KeyFunction keys, List<? extends Number> since) throws Exception {
    StateChanges changes = new StateChanges(layout, to, keys.count());
    forEachPartition(from, keys.count(), (task, partition, own) ->
        StateChanges.forEach(
            layout, keys, to.get(0).partitions(), task, partition, since.get(from.indexOf(task)).longValue(),
            (router, key, value, keyBytes, valueBytes) -> {
              requireOwn(task, router, key, layout.first());
              if (router.isAnywhere() && from.size() > 1) {
                throw new IllegalStateException("several old tasks may have changed the key " + text(key, layout.first()));
              }
              changes.keep(router, key, value, keyBytes, valueBytes);
            }));
    return changes.write(threads).toJson();
  }

  /** Reads the changes in the new tasks' version of one store. Returns the tally as JSON; throws as {@link #verify}. */
  public String verifyChange(StoreLayout layout, KeyFunction keys) throws Exception {
    return forEachPartition(to, keys.count(), (task, partition, own) ->
        StateChanges.forEach(layout, keys, task.partitions(), task, partition, task.version() - 1,
            (router, key, value, keyBytes, valueBytes) -> {
              requirePlace(layout, task, partition, router);
              own.add(router.keyGroup(), Tally.hash(key, value));
            })).toJson();
  }

  private static void requirePlace(StoreLayout layout, TaskState task, int partition, KeyFunction.Router router) {
    if (!task.has(router.keyGroup()) || router.partition() != partition) {
      throw new IllegalStateException("after the move, a row of " + layout.store()
          + " is in the wrong task or partition");
    }
  }

  @FunctionalInterface
  private interface PartitionWork {
    void run(TaskState task, int partition, Tally own);
  }

  @FunctionalInterface
  private interface RowWork {
    void take(int family, KeyFunction.Router router, UnsafeRow key, UnsafeRow value);
  }

  private Tally forEachPartition(List<TaskState> tasks, int keyGroups, PartitionWork work) throws Exception {
    List<Callable<Tally>> calls = new ArrayList<>();
    for (TaskState task : tasks) {
      for (int partition = 0; partition < task.partitions(); partition++) {
        int number = partition;
        calls.add(() -> {
          Tally own = new Tally(keyGroups);
          work.run(task, number, own);
          return own;
        });
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

  private record Scan(StoreLayout layout, KeyFunction keys, int targetPartitions, RowWork work) {
    void run(TaskState task, int partition) {
      StateStoreProvider provider = task.open(layout, partition);
      try {
        // Families can only be registered with a store that is open for writing.
        if (layout.store().hasVariables()) {
          StateStore store = provider.getStore(task.version(), Option.empty(), false, false);
          layout.register(store);
          rows(store);
        } else {
          rows(provider.getReadStore(task.version(), Option.empty()));
        }
      } finally {
        provider.close();
      }
    }

    private void rows(ReadStateStore store) {
      try {
        for (int number = 0; number < layout.families().size(); number++) {
          rows(store, number, layout.families().get(number));
        }
      } finally {
        store.abort();
      }
    }

    private void rows(ReadStateStore store, int number, StoreLayout.Family family) {
      StatePartitionKeyExtractor partitionKeys = family.partitionKeys();
      KeyFunction.Router router = keys.router(partitionKeys.partitionKeySchema(), targetPartitions);
      try (StateStoreIterator<UnsafeRowPair> rows = store.iterator(family.name())) {
        while (rows.hasNext()) {
          UnsafeRowPair row = rows.next();
          router.at(partitionKeys.partitionKey(row.key()));
          if (family.isList()) {
            UnsafeRow key = row.key().copy();
            Iterator<UnsafeRow> values = store.valuesIterator(key, family.name());
            while (values.hasNext()) {
              work.take(number, router, key, values.next());
            }
          } else {
            work.take(number, router, row.key(), row.value());
          }
        }
      }
    }
  }

  private static void requireOwn(
      TaskState task, KeyFunction.Router router, UnsafeRow key, StoreLayout.Family family) {
    int keyGroup = router.keyGroup();
    if (!router.isAnywhere() && !task.has(keyGroup)) {
      throw new UnmovableStateException(
          "state cannot be moved because the task of key groups " + task.lowestKeyGroup() + " to "
              + (task.endOfKeyGroups() - 1) + " keeps the key " + text(key, family) + " of key group " + keyGroup
              + " (operator " + family.store().operator() + "): the input's records are not partitioned by key_function"
              + " and key_columns");
    }
  }

  private static UnmovableStateException severalHave(UnsafeRow key, StoreLayout.Family family) {
    return new UnmovableStateException(
        "state cannot be moved because several tasks keep the null key " + text(key, family) + " (operator "
            + family.store().operator() + "), and their rows cannot be combined. With malformed: dead_letter such rows"
            + " do not reach the query; with malformed: null the query must filter them");
  }

  private static String text(UnsafeRow key, StoreLayout.Family family) {
    return key.toSeq(family.schema().keySchema()).mkString("(", ", ", ")");
  }
}
