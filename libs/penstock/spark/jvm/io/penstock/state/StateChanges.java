package io.penstock.state;

import io.penstock.state.TaskState.ChangeFile;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StateStoreChangelogReader;
import org.apache.spark.sql.execution.streaming.state.StateStoreChangelogReaderFactory;
import org.apache.spark.sql.execution.streaming.state.StateStoreChangelogWriterV1;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.SupportsFineGrainedReplay;
import org.apache.spark.util.NextIterator;
import scala.Enumeration;
import scala.Option;
import scala.Tuple3;
import scala.Tuple4;

/**
 * The changes of one store, from the files of the old tasks' changes into one such file for each new store.
 *
 * <p>No state is loaded: the work grows with the changes, not with the state. All changes of a key are in the files of
 * one old store, in order. Only the last change of a key is written.
 */
final class StateChanges {
  private final List<Target> all = new ArrayList<>();
  private final Target[][] byKeyGroup;

  /** The file of one new store. {@code last}: the last change by key. */
  private record Target(ChangeFile file, Map<ByteBuffer, Change> last) {}

  /** A change as its file has it. {@code value}: null when the key is removed. {@code hash}: of the decoded rows. */
  private record Change(byte[] key, byte[] value, int keyGroup, long hash) {}

  /** Takes a change: decoded, and as its file has it. The value is null when the key is removed. */
  @FunctionalInterface
  interface ChangeWork {
    void take(KeyFunction.Router router, UnsafeRow key, UnsafeRow value, byte[] keyBytes, byte[] valueBytes);
  }

  StateChanges(StoreLayout layout, List<TaskState> tasks, int keyGroups) {
    byKeyGroup = new Target[keyGroups][];
    for (TaskState task : tasks) {
      Target[] partitions = new Target[task.partitions()];
      for (int partition = 0; partition < task.partitions(); partition++) {
        ChangeFile file = task.changeFile(layout.store(), partition, task.version());
        partitions[partition] = new Target(file, new LinkedHashMap<>());
        all.add(partitions[partition]);
      }
      for (int keyGroup = task.lowestKeyGroup(); keyGroup < task.endOfKeyGroups(); keyGroup++) {
        byKeyGroup[keyGroup] = partitions;
      }
    }
  }

  /** Reads the changes of one partition of a task after the version {@code since}, up to the task's version. */
  static void forEach(StoreLayout layout, KeyFunction keys, int targetPartitions, TaskState task, int partition,
      long since, ChangeWork work) {
    StatePartitionKeyExtractor partitionKeys = layout.first().partitionKeys();
    KeyFunction.Router router = keys.router(partitionKeys.partitionKeySchema(), targetPartitions);
    StateStoreProvider provider = task.open(layout, partition);
    try {
      for (long version = since + 1; version <= task.version(); version++) {
        ChangeFile file = task.changeFile(layout.store(), partition, version);
        forEachOf(provider, version, file, (key, value, keyBytes, valueBytes) -> {
          router.at(partitionKeys.partitionKey(key));
          work.take(router, key, value, keyBytes, valueBytes);
        });
      }
    } finally {
      provider.close();
    }
  }

  /** Keeps a change, in place of an earlier one of its key. */
  void keep(KeyFunction.Router router, UnsafeRow key, UnsafeRow value, byte[] keyBytes, byte[] valueBytes) {
    int keyGroup = router.keyGroup();
    Map<ByteBuffer, Change> last = byKeyGroup[keyGroup][router.partition()].last;
    Change change = new Change(keyBytes, valueBytes, keyGroup, Tally.hash(key, value));
    synchronized (last) {
      last.put(ByteBuffer.wrap(keyBytes), change);
    }
  }

  /** Writes the files, also those without changes. Returns the tally of the changes. */
  Tally write(int threads) throws Exception {
    Tally tally = new Tally(byKeyGroup.length);
    List<Callable<Void>> writes = all.stream().<Callable<Void>>map(target -> () -> {
      write(target);
      return null;
    }).toList();
    StateMove.inParallel(threads, writes);
    all.forEach(target -> target.last.values().forEach(change -> tally.add(change.keyGroup, change.hash)));
    return tally;
  }

  private static void write(Target target) {
    ChangeFile file = target.file;
    StateStoreChangelogWriterV1 writer = new StateStoreChangelogWriterV1(file.manager(), file.path(), file.codec());
    try {
      for (Change change : target.last.values()) {
        if (change.value == null) {
          writer.delete(change.key);
        } else {
          writer.put(change.key, change.value);
        }
      }
      writer.commit();
    } catch (RuntimeException error) {
      writer.abort();
      throw error;
    }
  }

  @FunctionalInterface
  private interface RecordWork {
    void take(UnsafeRow key, UnsafeRow value, byte[] keyBytes, byte[] valueBytes);
  }

  /** The provider decodes a file's rows; the same file is read beside it as it is, record by record. */
  private static void forEachOf(StateStoreProvider provider, long version, ChangeFile file, RecordWork work) {
    NextIterator<Tuple4<Enumeration.Value, UnsafeRow, UnsafeRow, Object>> rows =
        ((SupportsFineGrainedReplay) provider)
            .getStateStoreChangeDataReader(version, version, Option.empty(), Option.empty());
    try {
      StateStoreChangelogReader records =
          new StateStoreChangelogReaderFactory(file.manager(), file.path(), file.codec()).constructChangelogReader();
      try {
        while (records.hasNext()) {
          Tuple3<Enumeration.Value, byte[], byte[]> record = records.next();
          requireSame(record, rows, file);
          Tuple4<Enumeration.Value, UnsafeRow, UnsafeRow, Object> row = rows.next();
          work.take(row._2(), row._3(), record._2(), record._3());
        }
        if (rows.hasNext()) {
          throw new IllegalStateException(file.path() + " has more changes than records");
        }
      } finally {
        records.closeIfNeeded();
      }
    } finally {
      rows.closeIfNeeded();
    }
  }

  private static void requireSame(Tuple3<Enumeration.Value, byte[], byte[]> record, NextIterator<?> rows, ChangeFile file) {
    String kind = record._1().toString();
    if (!rows.hasNext() || !(kind.equals("put_record") || kind.equals("delete_record"))) {
      throw new IllegalStateException(file.path() + " has a change that cannot be copied: " + kind);
    }
  }
}
