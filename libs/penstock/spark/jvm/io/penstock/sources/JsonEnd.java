package io.penstock.sources;

import io.penstock.spark42.DirectCall;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;

/**
 * Where more follows the first JSON object of a record. Spark reads the first object and passes over the rest, so a
 * second object would be lost. What cannot begin a JSON value is no such thing: white space, a comma, a zero byte.
 *
 * <p>It only follows brackets and strings. For text that is no JSON its answer means nothing.
 */
public final class JsonEnd implements Serializable {
  /** Of the bytes of a record, as {@link #more}; null where there are no bytes. */
  public static Column of(Column value) {
    return DirectCall.of(new JsonEnd(), "more", DataTypes.IntegerType, value);
  }

  /** The place of the first byte after the object that may begin a value; 0 without one. */
  public int more(byte[] bytes) {
    int depth = 0;
    for (int i = 0; i < bytes.length; i++) {
      switch (bytes[i]) {
        case '"', '\'' -> i = endOfString(bytes, i);
        case '{', '[' -> depth++;
        case '}', ']' -> {
          if (--depth <= 0) {
            return beginOfValue(bytes, i + 1);
          }
        }
        default -> { }
      }
    }
    return 0;
  }

  /** The place of the quote that ends the string which begins at {@code start}; Spark also takes single quotes. */
  private static int endOfString(byte[] bytes, int start) {
    int i = start + 1;
    while (i < bytes.length && bytes[i] != bytes[start]) {
      i += bytes[i] == '\\' ? 2 : 1;
    }
    return i;
  }

  private static int beginOfValue(byte[] bytes, int from) {
    for (int i = from; i < bytes.length; i++) {
      if ("{[\"'".indexOf(bytes[i]) >= 0 || bytes[i] > 0 && Character.isLetterOrDigit(bytes[i])) {
        return i;
      }
    }
    return 0;
  }

  @Override
  public String toString() {
    return "JsonEnd";
  }
}
