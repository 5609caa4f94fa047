package io.penstock.state;

import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;

/**
 * The state of one task: folder, number of partitions, version, key groups.
 *
 * @param settings of the state stores
 * @param files settings of the file systems
 */
record TaskState(
    String root, int partitions, long version, int lowestKeyGroup, int endOfKeyGroups, StateStoreConf settings,
    Configuration files) {
  static TaskState of(SparkSession session, String checkpoint, int partitions, long version, int lowest, int end) {
    // Starts the coordinator to which state stores report. Spark otherwise starts it with the first query.
    session.streams();
    return new TaskState(
        checkpoint + "/state", partitions, version, lowest, end, StateStoreConf.apply(session.sessionState().conf()),
        session.sessionState().newHadoopConf());
  }

  boolean has(int keyGroup) {
    return lowestKeyGroup <= keyGroup && keyGroup < endOfKeyGroups;
  }

  StateStoreProviderId storeId(StoreLayout.Store store, int partition) {
    return new StateStoreProviderId(
        new StateStoreId(root, store.operator(), partition, store.name()), UUID.randomUUID());
  }

  /** Opens a store. The caller must close it. */
  StateStoreProvider open(StoreLayout layout, int partition) {
    StoreLayout.Family first = layout.first();
    return StateStoreProvider.createAndInit(
        storeId(layout.store(), partition), first.schema().keySchema(), first.schema().valueSchema(), first.encoding(),
        layout.store().hasVariables(), settings, files, false, layout.schemas());
  }
}
