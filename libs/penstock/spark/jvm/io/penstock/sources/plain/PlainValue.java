package io.penstock.sources.plain;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads a JSON value that is not null as Spark's value of one type. */
@FunctionalInterface
interface PlainValue extends Serializable {
  /** Throws NotPlainException, or what Jackson throws, where the value is not written as its type. */
  Object read(JsonParser parser, JsonToken token) throws IOException;

  /** Throws NotPlainException for a type that only Spark reads. */
  static PlainValue of(DataType type, PlainTexts texts) {
    if (type instanceof StructType struct) {
      PlainObject fields = PlainObject.of(struct.fields(), texts);
      return (parser, token) -> new GenericInternalRow(fields.values(parser, 0));
    }
    if (type instanceof ArrayType array) {
      PlainValue element = of(array.elementType(), texts);
      return (parser, token) -> elements(parser, token, element);
    }
    if (type instanceof MapType map) {
      NotPlainException.require(map.keyType().equals(DataTypes.StringType));
      PlainValue value = of(map.valueType(), texts);
      return (parser, token) -> entries(parser, token, value);
    }
    return scalarOf(type, texts);
  }

  private static PlainValue scalarOf(DataType type, PlainTexts texts) {
    if (type.equals(DataTypes.StringType)) {
      return (parser, token) -> text(parser, token);
    }
    if (type.equals(DataTypes.BooleanType)) {
      return (parser, token) -> isTrue(token);
    }
    PlainValue number = numberOf(type);
    return number != null ? number : timeOf(type, texts);
  }

  private static PlainValue numberOf(DataType type) {
    if (type.equals(DataTypes.LongType)) {
      return (parser, token) -> whole(parser, token).getLongValue();
    }
    if (type.equals(DataTypes.IntegerType)) {
      return (parser, token) -> whole(parser, token).getIntValue();
    }
    if (type.equals(DataTypes.ShortType)) {
      return (parser, token) -> whole(parser, token).getShortValue();
    }
    if (type.equals(DataTypes.ByteType)) {
      return (parser, token) -> oneByte(whole(parser, token).getIntValue());
    }
    if (type.equals(DataTypes.DoubleType)) {
      return (parser, token) -> PlainTexts.finite(number(parser, token).getDoubleValue());
    }
    if (type.equals(DataTypes.FloatType)) {
      return (parser, token) -> PlainTexts.finite(number(parser, token).getFloatValue());
    }
    if (type instanceof DecimalType decimal) {
      return (parser, token) -> PlainTexts.decimal(number(parser, token).getDecimalValue(), decimal);
    }
    return null;
  }

  private static PlainValue timeOf(DataType type, PlainTexts texts) {
    PlainTexts.Reader times = texts.timesOf(type);
    if (type.equals(DataTypes.TimestampType)) {
      return (parser, token) -> token == JsonToken.VALUE_NUMBER_INT
          ? PlainTexts.ofSeconds(parser.getLongValue())
          : times.of(text(parser, token));
    }
    return (parser, token) -> times.of(text(parser, token));
  }

  private static UTF8String text(JsonParser parser, JsonToken token) throws IOException {
    NotPlainException.require(token == JsonToken.VALUE_STRING);
    return UTF8String.fromString(parser.getText());
  }

  private static Object isTrue(JsonToken token) {
    NotPlainException.require(token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE);
    return token == JsonToken.VALUE_TRUE;
  }

  private static JsonParser whole(JsonParser parser, JsonToken token) {
    NotPlainException.require(token == JsonToken.VALUE_NUMBER_INT);
    return parser;
  }

  private static JsonParser number(JsonParser parser, JsonToken token) {
    NotPlainException.require(token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT);
    return parser;
  }

  private static Object oneByte(int number) {
    NotPlainException.require(number == (byte) number);
    return (byte) number;
  }

  private static GenericArrayData elements(JsonParser parser, JsonToken token, PlainValue element) throws IOException {
    NotPlainException.require(token == JsonToken.START_ARRAY);
    List<Object> found = new ArrayList<>();
    for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next = parser.nextToken()) {
      found.add(next == JsonToken.VALUE_NULL ? null : element.read(parser, next));
    }
    return new GenericArrayData(found.toArray());
  }

  private static ArrayBasedMapData entries(JsonParser parser, JsonToken token, PlainValue value) throws IOException {
    NotPlainException.require(token == JsonToken.START_OBJECT);
    Map<String, Object> found = new LinkedHashMap<>();
    for (String key = parser.nextFieldName(); key != null; key = parser.nextFieldName()) {
      JsonToken next = parser.nextToken();
      NotPlainException.require(!found.containsKey(key));
      found.put(key, next == JsonToken.VALUE_NULL ? null : value.read(parser, next));
    }
    NotPlainException.require(parser.currentToken() == JsonToken.END_OBJECT);
    Object[] keys = found.keySet().stream().map(UTF8String::fromString).toArray();
    return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(found.values().toArray()));
  }
}
