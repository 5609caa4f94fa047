package io.penstock.spark42;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.ScriptTransformation;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The names in a text as Spark's own parser reads it, before anything is resolved: Spark calls some functions, and opens
 * some relations, while it still resolves names.
 */
public final class ParsedQuery {
  private final Set<String> plain = new LinkedHashSet<>();
  private final Set<String> qualified = new LinkedHashSet<>();
  private final Set<String> tableFunctions = new LinkedHashSet<>();
  private final Set<String> functions = new LinkedHashSet<>();
  private final Set<String> defined = new LinkedHashSet<>();
  private final Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
  private boolean computesNames;
  private boolean runsPrograms;

  private ParsedQuery() {}

  /** Of a text that is a query. Raises ParseException for any other. */
  public static ParsedQuery of(SparkSession session, String text) throws ParseException {
    ParsedQuery parsed = new ParsedQuery();
    parsed.visit(session.sessionState().sqlParser().parseQuery(text));
    return parsed;
  }

  /** Of a text that is one expression, with or without an alias. Raises ParseException for any other. */
  public static ParsedQuery ofExpression(SparkSession session, String text) throws ParseException {
    ParsedQuery parsed = new ParsedQuery();
    parsed.visit(session.sessionState().sqlParser().parseExpression(text));
    return parsed;
  }

  /** The relations that are read, in lower case, but those that the query defines in a WITH; parts joined by dots. */
  public List<String> relations() {
    return Stream.concat(plain.stream().filter(name -> !defined.contains(name)), qualified.stream()).toList();
  }

  /** The functions that are called, in lower case, without what qualifies their names. */
  public List<String> functions() {
    return new ArrayList<>(functions);
  }

  /** The functions that give rows, in FROM or LATERAL VIEW, in the same way. */
  public List<String> tableFunctions() {
    return new ArrayList<>(tableFunctions);
  }

  /** Whether a name is that of an IDENTIFIER clause, which is computed when names are resolved. */
  public boolean computesNames() {
    return computesNames;
  }

  /** Whether rows go through a program: TRANSFORM ... USING. */
  public boolean runsPrograms() {
    return runsPrograms;
  }

  /** All that a node is made of: some nodes have expressions and plans that are neither among their children nor among
   * their expressions, such as those of a pipe's SET or of a WINDOW clause. */
  private void visit(Object part) {
    if (part instanceof TreeNode<?> node) {
      note(node);
    }
    if (part instanceof scala.collection.Iterable<?> several) {
      CollectionConverters.asJava(several).forEach(this::visit);
    } else if (part instanceof Product product && seen.add(part)) {
      CollectionConverters.asJava(product.productIterator()).forEachRemaining(this::visit);
    }
  }

  private void note(TreeNode<?> node) {
    if (node instanceof UnresolvedRelation relation) {
      noteRelation(relation.multipartIdentifier());
    } else if (node instanceof UnresolvedTableValuedFunction function) {
      tableFunctions.add(last(function.name()));
    } else if (node instanceof UnresolvedGenerator generator) {
      tableFunctions.add(generator.name().funcName().toLowerCase(Locale.ROOT));
    } else if (node instanceof UnresolvedFunction function) {
      functions.add(last(function.nameParts()));
    } else if (node instanceof UnresolvedWith with) {
      CollectionConverters.asJava(with.cteRelations())
          .forEach(each -> defined.add(each._1().toLowerCase(Locale.ROOT)));
    }
    computesNames |= node instanceof PlanWithUnresolvedIdentifier || node instanceof ExpressionWithUnresolvedIdentifier;
    runsPrograms |= node instanceof ScriptTransformation;
  }

  /** Only a name of one part can be that of a WITH. */
  private void noteRelation(Seq<String> parts) {
    (parts.size() == 1 ? plain : qualified).add(joined(parts));
  }

  private static String joined(Seq<String> parts) {
    return String.join(".", CollectionConverters.asJava(parts)).toLowerCase(Locale.ROOT);
  }

  private static String last(Seq<String> parts) {
    return parts.apply(parts.size() - 1).toLowerCase(Locale.ROOT);
  }
}
