package io.penstock.sources.plain;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Reads plain records of JSON: one strict object, where each value is written as the type of its field. Spark's
 * {@code from_json} makes the same row of such a record, in more time. All else is left to Spark.
 *
 * <p>A plain record is never malformed, and its row says what the record says. So it is not plain with a number that its
 * type does not hold, a field twice, something behind the object, or bytes that are not UTF-8.
 */
public final class PlainJson implements Serializable {
  private static final JsonFactory STRICT = new JsonFactory();

  private final PlainObject reader;

  private PlainJson(PlainObject reader) {
    this.reader = reader;
  }

  /**
   * The rows of a column of bytes, as {@link PlainRows} says.
   *
   * @param schema of Spark's rows, as JSON; its last field is for the text of a corrupt record
   * @param bySpark the rows, if Spark reads them
   */
  public static Column of(SparkSession session, Column bytes, String schema, Column bySpark) {
    return PlainRows.column(
        session, bytes, schema, bySpark, (fields, texts) -> new PlainJson(PlainObject.of(fields, texts)));
  }

  /** For Spark's plan: a row, or null. */
  public Object read(byte[] bytes) {
    if (!beginsInUtf8(bytes)) {
      return null;
    }
    try (JsonParser parser = STRICT.createParser(bytes)) {
      parser.nextToken();
      Object[] values = reader.values(parser, PlainRows.MORE);
      return parser.nextToken() == null && PlainTexts.isUtf8(bytes) ? PlainRows.marked(values) : null;
    } catch (IOException | RuntimeException notPlain) { // Jackson and BigDecimal throw many, and Spark decides then
      return null;
    }
  }

  /** Else Jackson might take the bytes for UTF-16 or UTF-32. */
  private static boolean beginsInUtf8(byte[] bytes) {
    return bytes.length > 1 && bytes[0] == '{' && bytes[1] != 0;
  }

  @Override
  public String toString() {
    return "plain JSON";
  }
}
