package io.penstock.spark42;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Calls a method of a Java object on Spark's own values ({@code byte[]}, {@code InternalRow}). A UDF would convert each
 * row to Scala's values and back.
 */
public final class DirectCall {
  private DirectCall() {}

  /**
   * The result of a public method as a column; null where an argument is null.
   *
   * @param target is serializable; plans show its {@code toString}
   */
  public static Column of(Object target, String method, DataType type, Column... arguments) {
    List<Expression> given = Arrays.stream(arguments).map(ExpressionUtils::expression).toList();
    boolean nullIfAnyIs = true;
    boolean mayBeNull = true;
    boolean deterministic = true;
    return ExpressionUtils.column(
        new Invoke(
            Literal.fromObject(target), method, type, seq(given), seq(List.<AbstractDataType>of()), nullIfAnyIs,
            mayBeNull, deterministic));
  }

  private static <T> Seq<T> seq(List<T> values) {
    return CollectionConverters.asScala(values).toList();
  }
}
