package io.penstock.state;

import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory$;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Nil$;

/** The schema of a store, read from a checkpoint that has it. */
record StoreLayout(Store store, StructType keySchema, StructType valueSchema) {
  static final String COLUMN_FAMILY = "default";

  @SuppressWarnings({"unchecked", "rawtypes"})
  static StoreLayout read(Store store, TaskState task) {
    StateStoreColFamilySchema schema = new StateSchemaCompatibilityChecker(
        task.storeId(store, 0), task.files(), (scala.collection.immutable.List) Nil$.MODULE$, Option.empty(), false)
        .readSchemaFile()
        .head();
    return new StoreLayout(store, schema.keySchema(), schema.valueSchema());
  }

  KeyStateEncoderSpec encoding() {
    return store.prefixColumns() > 0
        ? new PrefixKeyScanStateEncoderSpec(keySchema, store.prefixColumns())
        : new NoPrefixKeyStateEncoderSpec(keySchema);
  }

  /** Takes from a store's key what Spark partitions the operator's state by. Not for several threads at once. */
  StatePartitionKeyExtractor partitionKeys() {
    return StatePartitionKeyExtractorFactory$.MODULE$.create(
        store.operatorName(), keySchema, store.name(), COLUMN_FAMILY, Option.apply(store.formatVersion()),
        Option.empty());
  }
}
