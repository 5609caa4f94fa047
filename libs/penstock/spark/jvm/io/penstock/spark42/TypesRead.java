package io.penstock.spark42;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** The columns that a query reads. Those of a table are in the table, so the same query may read others later. */
public final class TypesRead {
  private TypesRead() {}

  /** Names and types of the columns of all that {@code query} reads, as JSON, in the order of its plan. */
  public static String of(Dataset<?> query) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<?>) query).queryExecution().analyzed();
    List<LogicalPlan> plans = new ArrayList<>(List.of(plan));
    CollectionConverters.asJava(plan.subqueriesAll()).forEach(plans::add);
    return plans.stream()
        .flatMap(each -> CollectionConverters.asJava(each.collectLeaves()).stream())
        .map(leaf -> leaf.schema().json())
        .toList().toString();
  }
}
