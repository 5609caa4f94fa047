package io.penstock.state;

import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateStoreColumnFamilySchemaUtils$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateOperatorProperties$;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.InMemoryStateSchemaProvider;
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
  static StoreLayout read(Store store, TaskState task) {
    Seq<Path> files = CollectionConverters.asScala(store.schemaFiles().stream().map(Path::new).toList()).toSeq();
    List<StateStoreColFamilySchema> schemas = CollectionConverters.asJava(
        new StateSchemaCompatibilityChecker(
            task.storeId(store, 0), task.files(), files.toList(), Option.empty(), false).readSchemaFile());
    Map<String, TransformWithStateVariableInfo> variables = variables(store);
    List<Family> families =
        schemas.stream().map(schema -> new Family(store, schema, variableOf(schema, variables))).toList();
    return new StoreLayout(store, families, store.hasVariables() ? provider(store, task) : Option.empty());
  }

  /** The family with which a store is opened. */
  Family first() {
    return families.get(0);
  }

  boolean hasFamilies() {
    return store.hasVariables();
  }

  void register(StateStore open) {
    families.forEach(family -> family.register(open));
  }

  private static Option<StateSchemaProvider> provider(Store store, TaskState task) {
    Seq<String> files = CollectionConverters.asScala(store.schemaFiles()).toSeq();
    return Option.apply(new InMemoryStateSchemaProvider(
        StateSchemaMetadata$.MODULE$.createStateSchemaMetadata(task.root(), task.files(), files.toList())));
  }

  private static Map<String, TransformWithStateVariableInfo> variables(Store store) {
    if (!store.hasVariables()) {
      return Map.of();
    }
    return CollectionConverters.asJava(
        TransformWithStateOperatorProperties$.MODULE$.fromJson(store.properties()).stateVariables())
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
