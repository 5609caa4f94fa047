package io.penstock.sources;

import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whether more than white space follows the first JSON object of a record. Spark reads the first object and passes over
 * the rest, so a second object would be lost.
 *
 * <p>It only follows brackets and strings: what is no JSON at all is found by Spark's parser.
 */
public final class JsonEnd implements UDF1<byte[], Boolean> {
  /** As a function of Spark SQL over the bytes of a record. */
  public static UserDefinedFunction function() {
    return functions.udf(new JsonEnd(), DataTypes.BooleanType);
  }

  @Override
  public Boolean call(byte[] bytes) {
    return bytes != null && hasMore(bytes);
  }

  static boolean hasMore(byte[] bytes) {
    int depth = 0;
    for (int i = 0; i < bytes.length; i++) {
      switch (bytes[i]) {
        case '"', '\'' -> i = endOfString(bytes, i);
        case '{', '[' -> depth++;
        case '}', ']' -> {
          if (--depth <= 0) {
            return !isBlank(bytes, i + 1);
          }
        }
        default -> { }
      }
    }
    return false;
  }

  /** The place of the quote that ends the string which begins at {@code start}; Spark also takes single quotes. */
  private static int endOfString(byte[] bytes, int start) {
    int i = start + 1;
    while (i < bytes.length && bytes[i] != bytes[start]) {
      i += bytes[i] == '\\' ? 2 : 1;
    }
    return i;
  }

  private static boolean isBlank(byte[] bytes, int from) {
    for (int i = from; i < bytes.length; i++) {
      if (bytes[i] != ' ' && bytes[i] != '\n' && bytes[i] != '\r' && bytes[i] != '\t') {
        return false;
      }
    }
    return true;
  }
}
