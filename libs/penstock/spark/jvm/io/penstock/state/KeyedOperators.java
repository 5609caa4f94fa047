package io.penstock.state;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.StatefulOpClusteredDistribution;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata$;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator$;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The columns of a query's inputs by which each stateful operator partitions its state.
 *
 * <p>The key columns of the inputs carry a tag in their metadata: the position of the column in the input's key. Spark
 * keeps a column's metadata while the column is unchanged, even under another name, and drops it in expressions.
 */
public final class KeyedOperators {
  private static final ObjectMapper JSON = new ObjectMapper();

  private KeyedOperators() {}

  /**
   * JSON with two fields. {@code operators}: one record for each stateful operator with {@code operator} (its id in the
   * checkpoint), {@code name} (Spark's) and {@code columns}: for each column by which the state is partitioned, in
   * order, the tag or null. {@code mixed}: true when only some branches of a UNION have the tag, so that later tags may
   * be wrong.
   */
  public static String describe(Dataset<?> result, String tag) throws JsonProcessingException {
    LogicalPlan plan = result.queryExecution().analyzed();
    ObjectNode found = JSON.createObjectNode().put("mixed", plan.exists(node -> isMixed(node, tag)));
    ArrayNode operators = found.putArray("operators");
    for (SparkPlan node : CollectionConverters.asJava(planned(result, plan).map(node -> node))) {
      if (node instanceof StateStoreWriter operator) {
        ArrayNode columns = operators.addObject()
            .put("operator", operator.getStateInfo().operatorId())
            .put("name", operator.shortName())
            .putArray("columns");
        columnTags(node, tag).forEach(columns::add);
      }
    }
    return JSON.writeValueAsString(found);
  }

  /** Whether a query keeps state from batch to batch. */
  public static boolean keepsState(Dataset<?> result) {
    return planned(result, result.queryExecution().analyzed()).exists(StateStoreWriter.class::isInstance);
  }

  /** The physical plan, with operators numbered as in a streaming query. Nothing is read or written. */
  private static SparkPlan planned(Dataset<?> result, LogicalPlan plan) {
    return new IncrementalExecution(
        result.sparkSession(), plan, OutputMode.Append(), "", UUID.randomUUID(), UUID.randomUUID(), 0L, Option.empty(),
        OffsetSeqMetadata$.MODULE$.apply(0L, 0L, scala.collection.immutable.Map$.MODULE$.empty()),
        WatermarkPropagator$.MODULE$.noop(), false, new scala.collection.mutable.HashMap<>(),
        new scala.collection.mutable.HashMap<>(), CommandExecutionMode$.MODULE$.SKIP(), false).executedPlan();
  }

  /**
   * A column of a join has a tag only if both sides have the same. The second input of other operators is an initial
   * state.
   */
  private static List<Long> columnTags(SparkPlan operator, String tag) {
    List<Distribution> distributions = CollectionConverters.asJava(operator.requiredChildDistribution());
    List<Long> tags = tags(distributions.get(0), tag);
    return operator instanceof StreamingSymmetricHashJoinExec ? agreed(tags, tags(distributions.get(1), tag)) : tags;
  }

  private static List<Long> tags(Distribution distribution, String tag) {
    return distribution instanceof StatefulOpClusteredDistribution clustered
        ? tags(clustered.expressions(), tag)
        : List.of();
  }

  private static List<Long> tags(Seq<? extends Expression> columns, String tag) {
    return CollectionConverters.asJava(columns).stream().map(column -> tagOf(column, tag)).toList();
  }

  private static List<Long> agreed(List<Long> one, List<Long> other) {
    return IntStream.range(0, one.size())
        .mapToObj(place -> place < other.size() && Objects.equals(one.get(place), other.get(place))
            ? one.get(place)
            : null)
        .toList();
  }

  /** A field of a decoded record counts too: Spark may push an operator below the projection of that field. */
  private static Long tagOf(Expression column, String tag) {
    Metadata metadata = column instanceof Attribute attribute
        ? attribute.metadata()
        : column instanceof GetStructField field ? field.metadata() : Metadata.empty();
    return metadata.contains(tag) ? (Long) metadata.getLong(tag) : null;
  }

  private static boolean isMixed(LogicalPlan node, String tag) {
    return node instanceof Union
        && CollectionConverters.asJava(node.children()).stream()
            .map(branch -> tags(branch.output(), tag)).distinct().count() > 1;
  }
}
