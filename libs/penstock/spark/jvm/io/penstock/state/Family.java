package io.penstock.state;

import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateStoreColumnFamilySchemaUtils$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateVariableType;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import scala.Option;

/**
 * A column family: the rows of one schema in a store. A store of a built-in operator has one family. A variable of
 * transformWithState has one family, and one more for each of its indexes.
 *
 * @param variable the variable of transformWithState to which the family belongs; null for built-in operators
 */
public record Family(Store store, StateStoreColFamilySchema schema, TransformWithStateVariableInfo variable) {
  static final String DEFAULT = "default";

  String name() {
    return schema.colFamilyName();
  }

  /** Whether a key has a list of values. In an index of a list variable a key has one value. */
  boolean isList() {
    return variable != null
        && variable.stateName().equals(name())
        && variable.stateVariableType().equals(StateVariableType.ListState());
  }

  KeyStateEncoderSpec encoding() {
    if (schema.keyStateEncoderSpec().isDefined()) {
      return schema.keyStateEncoderSpec().get();
    }
    return store.prefixColumns() > 0
        ? new PrefixKeyScanStateEncoderSpec(schema.keySchema(), store.prefixColumns())
        : new NoPrefixKeyStateEncoderSpec(schema.keySchema());
  }

  /** Registers the family with an open store. */
  void register(StateStore open) {
    if (!name().equals(DEFAULT)) {
      boolean internal = StateStoreColumnFamilySchemaUtils$.MODULE$.isInternalColFamily(name());
      open.createColFamilyIfAbsent(
          name(), schema.keySchema(), schema.valueSchema(), encoding(), isList(), internal);
    }
  }

  /** Extracts from a key the columns by which Spark partitions the operator. Not safe for use by several threads. */
  StatePartitionKeyExtractor partitionKeys() {
    return StatePartitionKeyExtractorFactory$.MODULE$.create(
        store.operatorName(), schema.keySchema(), store.name(), name(), Option.apply(store.formatVersion()),
        Option.apply(variable));
  }
}
