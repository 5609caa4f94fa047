package io.penstock.sources.plain;

import java.io.Serializable;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads a value of CSV, which is some bytes of a line, as Spark's value of one type. */
@FunctionalInterface
interface PlainToken extends Serializable {
  /** As many digits as always fit a BIGINT. */
  int MOST_DIGITS = 18;

  /** The time for a number grows with the square of its digits. Longer ones are left to Spark. */
  int MOST_SIGNS_OF_A_NUMBER = 100;

  /** Throws NotPlainException or NumberFormatException where the value is not written as its type. */
  Object read(byte[] line, int begin, int end);

  /** Throws NotPlainException for a type that only Spark reads. */
  static PlainToken of(DataType type, PlainTexts texts) {
    if (type.equals(DataTypes.StringType)) {
      return PlainToken::text;
    }
    if (type.equals(DataTypes.BooleanType)) {
      return (line, begin, end) -> isTrue(string(line, begin, end));
    }
    PlainToken number = wholeOf(type);
    number = number != null ? number : fractionOf(type);
    if (number != null) {
      return number;
    }
    PlainTexts.Reader times = texts.timesOf(type);
    return (line, begin, end) -> times.of(text(line, begin, end));
  }

  private static PlainToken wholeOf(DataType type) {
    if (type.equals(DataTypes.LongType)) {
      return PlainToken::whole;
    }
    if (type.equals(DataTypes.IntegerType)) {
      return (line, begin, end) -> (int) within(whole(line, begin, end), Integer.MIN_VALUE, Integer.MAX_VALUE);
    }
    if (type.equals(DataTypes.ShortType)) {
      return (line, begin, end) -> (short) within(whole(line, begin, end), Short.MIN_VALUE, Short.MAX_VALUE);
    }
    if (type.equals(DataTypes.ByteType)) {
      return (line, begin, end) -> (byte) within(whole(line, begin, end), Byte.MIN_VALUE, Byte.MAX_VALUE);
    }
    return null;
  }

  private static PlainToken fractionOf(DataType type) {
    if (type.equals(DataTypes.DoubleType)) {
      return (line, begin, end) -> PlainTexts.finite(Double.parseDouble(number(line, begin, end)));
    }
    if (type.equals(DataTypes.FloatType)) {
      return (line, begin, end) -> PlainTexts.finite(Float.parseFloat(number(line, begin, end)));
    }
    if (type instanceof DecimalType decimal) {
      return (line, begin, end) -> PlainTexts.decimal(new BigDecimal(number(line, begin, end)), decimal);
    }
    return null;
  }

  private static UTF8String text(byte[] line, int begin, int end) {
    return UTF8String.fromBytes(line, begin, end - begin);
  }

  private static String string(byte[] line, int begin, int end) {
    return new String(line, begin, end - begin, StandardCharsets.ISO_8859_1);
  }

  private static Object isTrue(String word) {
    NotPlainException.require(word.equals("true") || word.equals("false"));
    return word.equals("true");
  }

  private static long whole(byte[] line, int begin, int end) {
    int first = line[begin] == '-' ? begin + 1 : begin;
    NotPlainException.require(first < end && end - first <= MOST_DIGITS);
    long found = 0;
    for (int i = first; i < end; i++) {
      NotPlainException.require(line[i] >= '0' && line[i] <= '9');
      found = found * 10 + line[i] - '0';
    }
    return first == begin ? found : -found;
  }

  private static long within(long number, long least, long most) {
    NotPlainException.require(number >= least && number <= most);
    return number;
  }

  /** Digits with what else a number has; Java takes more, such as a letter for its type. */
  private static String number(byte[] line, int begin, int end) {
    NotPlainException.require(end - begin <= MOST_SIGNS_OF_A_NUMBER);
    for (int i = begin; i < end; i++) {
      NotPlainException.require(line[i] >= '0' && line[i] <= '9' || "+-.eE".indexOf(line[i]) >= 0);
    }
    return string(line, begin, end);
  }
}
