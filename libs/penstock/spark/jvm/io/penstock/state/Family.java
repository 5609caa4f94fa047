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
 * Rows of one schema in a store. Built-in operators have one family a store; a variable of transformWithState has one,
 * with others for its indexes.
 *
 * @param variable the variable of transformWithState that the family is of; null for built-in operators
 */
public record Family(Store store, StateStoreColFamilySchema schema, TransformWithStateVariableInfo variable) {
  static final String DEFAULT = "default";

  String name() {
    return schema.colFamilyName();
  }

  /** Whether a key has a list of values. Indexes of a list have one value a key. */
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

  /** Makes the family known to an open store. */
  void register(StateStore open) {
    if (!name().equals(DEFAULT)) {
      boolean internal = StateStoreColumnFamilySchemaUtils$.MODULE$.isInternalColFamily(name());
      open.createColFamilyIfAbsent(
          name(), schema.keySchema(), schema.valueSchema(), encoding(), isList(), internal);
    }
  }

  /** Takes from a key of the family what Spark partitions the operator by. Not for several threads at once. */
  StatePartitionKeyExtractor partitionKeys() {
    return StatePartitionKeyExtractorFactory$.MODULE$.create(
        store.operatorName(), schema.keySchema(), store.name(), name(), Option.apply(store.formatVersion()),
        Option.apply(variable));
  }
}
