package io.penstock.state;

import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateStoreColumnFamilySchemaUtils$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateVariableType;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateOperatorProperties$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.InMemoryStateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker;
import org.apache.spark.sql.execution.streaming.state.StateSchemaMetadata$;
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The column families and schemas of a store, read from a checkpoint.
 *
 * @param schemas the schema versions that rows of transformWithState refer to; empty for other operators
 */
public record StoreLayout(Store store, List<Family> families, Option<StateSchemaProvider> schemas) {
  /**
   * One state store of an operator, as described by the operator's metadata in the checkpoint.
   *
   * @param operator id of the operator
   * @param operatorName Spark's name of the operator
   * @param name name of the store
   * @param prefixColumns number of leading key columns that a prefix scan uses; 0: none
   * @param formatVersion version of the format of the operator's state
   * @param properties JSON of transformWithState's variables; empty for other operators
   * @param schemaFiles paths of transformWithState's schemas; empty for other operators, whose schema has a fixed path
   */
  record Store(
      long operator, String operatorName, String name, int prefixColumns, int formatVersion, String properties,
      List<String> schemaFiles) {
    boolean hasVariables() {
      return !properties.isEmpty();
    }
  }

  /**
   * A column family: the rows of one schema in a store. A store of a built-in operator has one family. A variable of
   * transformWithState has one family, and one more for each of its indexes.
   *
   * @param variable the variable of transformWithState to which the family belongs; null for built-in operators
   */
  record Family(Store store, StateStoreColFamilySchema schema, TransformWithStateVariableInfo variable) {
    private static final String DEFAULT = "default";

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
      return store.prefixColumns > 0
          ? new PrefixKeyScanStateEncoderSpec(schema.keySchema(), store.prefixColumns)
          : new NoPrefixKeyStateEncoderSpec(schema.keySchema());
    }

    private void register(StateStore open) {
      if (!name().equals(DEFAULT)) {
        boolean internal = StateStoreColumnFamilySchemaUtils$.MODULE$.isInternalColFamily(name());
        open.createColFamilyIfAbsent(
            name(), schema.keySchema(), schema.valueSchema(), encoding(), isList(), internal);
      }
    }

    /** Extracts from a key the columns by which Spark partitions the operator. Not safe for use by several threads. */
    StatePartitionKeyExtractor partitionKeys() {
      return StatePartitionKeyExtractorFactory$.MODULE$.create(
          store.operatorName, schema.keySchema(), store.name, name(), Option.apply(store.formatVersion),
          Option.apply(variable));
    }
  }

  static StoreLayout read(Store store, TaskState task) {
    Seq<Path> files = CollectionConverters.asScala(store.schemaFiles.stream().map(Path::new).toList()).toSeq();
    List<StateStoreColFamilySchema> schemas = CollectionConverters.asJava(
        new StateSchemaCompatibilityChecker(
            task.storeId(store, 0), task.files(), files.toList(), Option.empty(), false).readSchemaFile());
    Map<String, TransformWithStateVariableInfo> variables = variables(store);
    List<Family> families =
        schemas.stream().map(schema -> new Family(store, schema, variableOf(schema, variables))).toList();
    return new StoreLayout(store, families, store.hasVariables() ? provider(store, task) : Option.empty());
  }

  /** Whether the files of its changes have all that changes in it, in a form that another store can read. */
  boolean hasPlainChanges() {
    return families.size() == 1 && !store.hasVariables() && first().name().equals(Family.DEFAULT);
  }

  /** The family with which a store is opened. */
  Family first() {
    return families.get(0);
  }

  /** Registers the families with an open store. */
  void register(StateStore open) {
    families.forEach(family -> family.register(open));
  }

  private static Option<StateSchemaProvider> provider(Store store, TaskState task) {
    Seq<String> files = CollectionConverters.asScala(store.schemaFiles).toSeq();
    return Option.apply(new InMemoryStateSchemaProvider(
        StateSchemaMetadata$.MODULE$.createStateSchemaMetadata(task.root(), task.files(), files.toList())));
  }

  private static Map<String, TransformWithStateVariableInfo> variables(Store store) {
    if (!store.hasVariables()) {
      return Map.of();
    }
    return CollectionConverters.asJava(
        TransformWithStateOperatorProperties$.MODULE$.fromJson(store.properties).stateVariables())
        .stream()
        .collect(Collectors.toMap(TransformWithStateVariableInfo::stateName, Function.identity()));
  }

  private static TransformWithStateVariableInfo variableOf(
      StateStoreColFamilySchema schema, Map<String, TransformWithStateVariableInfo> variables) {
    TransformWithStateVariableInfo own = variables.get(schema.colFamilyName());
    return own != null || variables.isEmpty()
        ? own
        : variables.get(StateStoreColumnFamilySchemaUtils$.MODULE$.getBaseStateName(schema.colFamilyName()));
  }
}
