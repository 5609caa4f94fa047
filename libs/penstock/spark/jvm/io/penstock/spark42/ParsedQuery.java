package io.penstock.spark42;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.ScriptTransformation;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The names in a text as Spark's own parser reads it, before anything is resolved: Spark calls some functions, and opens
 * some relations, while it still resolves names.
 */
public final class ParsedQuery {
  private final Set<String> relations = new LinkedHashSet<>();
  private final Set<String> functions = new LinkedHashSet<>();
  private final Set<String> defined = new LinkedHashSet<>();
  private boolean computesNames;
  private boolean runsPrograms;

  private ParsedQuery() {}

  /** Of a text that is a query. Raises ParseException for any other. */
  public static ParsedQuery of(SparkSession session, String text) throws ParseException {
    ParsedQuery parsed = new ParsedQuery();
    parsed.visitPlan(session.sessionState().sqlParser().parseQuery(text));
    return parsed;
  }

  /** Of a text that is one expression, with or without an alias. Raises ParseException for any other. */
  public static ParsedQuery ofExpression(SparkSession session, String text) throws ParseException {
    ParsedQuery parsed = new ParsedQuery();
    parsed.visitExpression(session.sessionState().sqlParser().parseExpression(text));
    return parsed;
  }

  /** The relations that are read, in lower case, but those that the query defines in a WITH; parts joined by dots. */
  public List<String> relations() {
    return relations.stream().filter(name -> !defined.contains(name)).toList();
  }

  /** The functions that are called, in lower case, without what qualifies their names. */
  public List<String> functions() {
    return new ArrayList<>(functions);
  }

  /** Whether a name is that of an IDENTIFIER clause, which is computed when names are resolved. */
  public boolean computesNames() {
    return computesNames;
  }

  /** Whether rows go through a program: TRANSFORM ... USING. */
  public boolean runsPrograms() {
    return runsPrograms;
  }

  private void visitPlan(QueryPlan<?> plan) {
    if (plan instanceof UnresolvedRelation relation) {
      relations.add(joined(relation.multipartIdentifier()));
    } else if (plan instanceof UnresolvedTableValuedFunction function) {
      functions.add(last(function.name()));
    } else if (plan instanceof UnresolvedWith with) {
      CollectionConverters.asJava(with.cteRelations())
          .forEach(each -> defined.add(each._1().toLowerCase(Locale.ROOT)));
    }
    computesNames |= plan instanceof PlanWithUnresolvedIdentifier;
    runsPrograms |= plan instanceof ScriptTransformation;
    CollectionConverters.asJava(plan.expressions()).forEach(this::visitExpression);
    below(plan.children());
    below(plan.innerChildren());
  }

  private void visitExpression(Expression expression) {
    if (expression instanceof UnresolvedFunction function) {
      functions.add(last(function.nameParts()));
    } else if (expression instanceof PlanExpression<?> subquery) {
      visitPlan(subquery.plan());
    }
    computesNames |= expression instanceof ExpressionWithUnresolvedIdentifier;
    CollectionConverters.asJava(expression.children()).forEach(this::visitExpression);
  }

  private void below(Seq<? extends TreeNode<?>> nodes) {
    for (TreeNode<?> node : CollectionConverters.asJava(nodes)) {
      if (node instanceof QueryPlan<?> plan) {
        visitPlan(plan);
      }
    }
  }

  private static String joined(Seq<String> parts) {
    return String.join(".", CollectionConverters.asJava(parts)).toLowerCase(Locale.ROOT);
  }

  private static String last(Seq<String> parts) {
    return parts.apply(parts.size() - 1).toLowerCase(Locale.ROOT);
  }
}
