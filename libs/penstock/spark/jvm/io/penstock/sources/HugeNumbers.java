package io.penstock.sources;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import io.penstock.spark42.DirectCall;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * Finds numbers such as {@code 1e9999999} in JSON in the place of a DECIMAL. Spark would make all their digits, for
 * minutes, before it finds that the type has not so many.
 *
 * <p>It reads what Spark's parser reads, up to the first mistake in the text.
 */
public final class HugeNumbers implements Serializable {
  private static final JsonFactory AS_SPARK = JsonFactory.builder()
      .enable(JsonReadFeature.ALLOW_SINGLE_QUOTES).enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS).build();

  private final DataType type;
  private final String pattern;

  private HugeNumbers(DataType type, String pattern) {
    this.type = type;
    this.pattern = pattern;
  }

  /**
   * Whether the records of a column of bytes have such a number; null where there are no bytes.
   *
   * @param schema of the records, as JSON of Spark
   * @param pattern what makes a number huge, as a regular expression
   */
  public static Column areIn(Column bytes, String schema, String pattern) {
    return DirectCall.of(
        new HugeNumbers(DataType.fromJson(schema), pattern), "isIn", DataTypes.BooleanType, bytes);
  }

  /** For Spark's plan. */
  public boolean isIn(byte[] json) {
    Pattern huge = Pattern.compile(pattern);
    InputStreamReader text = new InputStreamReader(new ByteArrayInputStream(json), StandardCharsets.UTF_8);
    try (JsonParser parser = AS_SPARK.createParser(text)) {
      parser.nextToken();
      return isIn(parser, type, huge);
    } catch (IOException endOfWhatSparkReads) {
      return false;
    }
  }

  private static boolean isIn(JsonParser parser, DataType type, Pattern huge) throws IOException {
    JsonToken token = parser.currentToken();
    if (token == JsonToken.START_OBJECT) {
      return isInObject(parser, type, huge);
    }
    if (token == JsonToken.START_ARRAY) {
      return isInArray(parser, type instanceof ArrayType array ? array.elementType() : type, huge);
    }
    return token != null && type instanceof DecimalType && huge.matcher(parser.getText()).find();
  }

  private static boolean isInObject(JsonParser parser, DataType type, Pattern huge) throws IOException {
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      parser.nextToken();
      if (isIn(parser, valueType(type, name), huge)) {
        return true;
      }
    }
    return false;
  }

  private static boolean isInArray(JsonParser parser, DataType element, Pattern huge) throws IOException {
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      if (isIn(parser, element, huge)) {
        return true;
      }
    }
    return false;
  }

  private static DataType valueType(DataType type, String name) {
    if (type instanceof MapType map) {
      return map.valueType();
    }
    boolean isField = type instanceof StructType struct && struct.getFieldIndex(name).isDefined();
    return isField ? ((StructType) type).apply(name).dataType() : DataTypes.NullType;
  }

  @Override
  public String toString() {
    return "HugeNumbers";
  }
}
