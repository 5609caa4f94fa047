package io.penstock.state;

import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The state of one task: folder, number of partitions, version, key groups.
 *
 * @param settings of the state stores
 * @param files settings of the file systems
 */
record TaskState(
    String root, int partitions, long version, int lowestKeyGroup, int endOfKeyGroups, StateStoreConf settings,
    Configuration files) {
  private static final String CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled";

  static TaskState of(SparkSession session, String checkpoint, int partitions, long version, int lowest, int end) {
    // Starts the coordinator to which state stores report. Spark otherwise starts it with the first query.
    session.streams();
    // A store that is written anew is a snapshot: with changelogs its only file would be one, slow to load.
    SQLConf conf = session.sessionState().conf().clone();
    conf.setConfString(CHANGELOGS, "false");
    return new TaskState(
        checkpoint + "/state", partitions, version, lowest, end, StateStoreConf.apply(conf),
        session.sessionState().newHadoopConf());
  }

  boolean has(int keyGroup) {
    return lowestKeyGroup <= keyGroup && keyGroup < endOfKeyGroups;
  }

  StateStoreProviderId storeId(StoreLayout.Store store, int partition) {
    return new StateStoreProviderId(
        new StateStoreId(root, store.operator(), partition, store.name()), UUID.randomUUID());
  }

  /** The file of the changes that make a version of a store out of the version before it. */
  ChangeFile changeFile(StoreLayout.Store store, int partition, long changed) {
    Path folder = storeId(store, partition).storeId().storeCheckpointLocation();
    // Both providers write the same format, under different names.
    String ending = settings.providerClass().contains("RocksDB") ? "changelog" : "delta";
    return new ChangeFile(
        CheckpointFileManager.create(folder, files), new Path(folder, changed + "." + ending),
        CompressionCodec.createCodec(SparkEnv.get().conf(), settings.compressionCodec()));
  }

  /** Where and how the changes of one version are written. */
  record ChangeFile(CheckpointFileManager manager, Path path, CompressionCodec codec) {}

  /** Opens a store. The caller must close it. */
  StateStoreProvider open(StoreLayout layout, int partition) {
    StoreLayout.Family first = layout.first();
    return StateStoreProvider.createAndInit(
        storeId(layout.store(), partition), first.schema().keySchema(), first.schema().valueSchema(), first.encoding(),
        layout.store().hasVariables(), settings, files, false, layout.schemas());
  }
}
