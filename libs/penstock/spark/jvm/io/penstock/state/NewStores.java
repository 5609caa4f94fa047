package io.penstock.state;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import scala.Option;

/** The partitions of one store of all new tasks, open for writing. */
final class NewStores implements AutoCloseable {
  private final List<Open> all = new ArrayList<>();
  private final Open[][] byKeyGroup;
  private final Map<String, TaskState> ownersOfNullKeys = new ConcurrentHashMap<>();

  private record Open(StateStoreProvider provider, StateStore store) {}

  NewStores(StoreLayout layout, List<TaskState> tasks, int keyGroups) {
    byKeyGroup = new Open[keyGroups][];
    for (TaskState task : tasks) {
      Open[] partitions = new Open[task.partitions()];
      for (int partition = 0; partition < task.partitions(); partition++) {
        partitions[partition] = open(layout, task, partition);
      }
      for (int keyGroup = task.lowestKeyGroup(); keyGroup < task.endOfKeyGroups(); keyGroup++) {
        byKeyGroup[keyGroup] = partitions;
      }
    }
  }

  private Open open(StoreLayout layout, TaskState task, int partition) {
    StateStoreProvider provider = task.open(layout, partition);
    Open open = new Open(provider, provider.getStore(0, Option.empty(), false, false));
    all.add(open);
    layout.register(open.store);
    return open;
  }

  /** Adds a row of the old task {@code from}. False when another old task has a row with this key, which stays. */
  boolean put(
      KeyFunction.Router router, StoreLayout.Family family, UnsafeRow key, UnsafeRow value, TaskState from) {
    StateStore store = byKeyGroup[router.keyGroup()][router.partition()].store;
    synchronized (store) {
      if (router.isAnywhere() && isOfAnother(family, key, from)) {
        return false;
      }
      if (family.isList() && store.keyExists(key, family.name())) {
        store.merge(key, value, family.name());
      } else {
        store.put(key, value, family.name());
      }
      return true;
    }
  }

  /** Only a key that may be anywhere can be in several old tasks. There are few of them. */
  private boolean isOfAnother(StoreLayout.Family family, UnsafeRow key, TaskState from) {
    String row = family.name() + "/" + HexFormat.of().formatHex(key.getBytes());
    return !from.equals(ownersOfNullKeys.computeIfAbsent(row, fresh -> from));
  }

  /** Commits all partitions, also those without rows, as version 1. */
  void commit(int threads) throws Exception {
    List<Callable<Long>> commits = all.stream().<Callable<Long>>map(open -> open.store::commit).toList();
    for (long version : StateMove.inParallel(threads, commits)) {
      if (version != 1) {
        throw new IllegalStateException(
            "a new state store has version " + version + " after its first commit, expected 1");
      }
    }
  }

  @Override
  public void close() {
    for (Open open : all) {
      if (!open.store.hasCommitted()) {
        open.store.abort();
      }
      open.provider.close();
    }
  }
}
