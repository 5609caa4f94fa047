package io.penstock.sources.plain;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructField;

/**
 * Reads plain records of CSV: one line without quotes and escapes, with a value for each field, written as the type of
 * the field. Spark's {@code from_csv} makes the same row of such a record. All else is left to Spark.
 *
 * <p>As {@link PlainJson} says, a plain record is never malformed, and its row says what the record says.
 */
public final class PlainCsv implements Serializable {
  private static final String NEVER_PLAIN = "\r\n\0";

  private final PlainToken[] readers;
  private final byte delimiter;
  private final boolean[] isSpecial = new boolean[Byte.MAX_VALUE + 1];
  private final byte[] nullText;

  private PlainCsv(PlainToken[] readers, String delimiter, String special, String nullText) {
    this.readers = readers;
    this.delimiter = (byte) delimiter.charAt(0);
    (NEVER_PLAIN + special).chars().forEach(each -> isSpecial[each] = true);
    this.nullText = nullText.getBytes(StandardCharsets.UTF_8);
  }

  /**
   * As {@link PlainJson#of}.
   *
   * @param delimiter one character of ASCII
   * @param special characters of ASCII; a line with one of them is not plain
   * @param nullText stands for null, as no character at all does
   */
  public static Column of(
      SparkSession session, Column bytes, String delimiter, String special, String nullText, String schema,
      Column bySpark) {
    return PlainRows.column(
        session, bytes, schema, bySpark,
        (fields, texts) -> new PlainCsv(readersOf(fields, texts), delimiter, special, nullText));
  }

  private static PlainToken[] readersOf(StructField[] fields, PlainTexts texts) {
    PlainToken[] readers = new PlainToken[fields.length];
    for (int place = 0; place < fields.length; place++) {
      readers[place] = PlainToken.of(fields[place].dataType(), texts);
    }
    return readers;
  }

  /** For Spark's plan: a row, or null. */
  public Object read(byte[] line) {
    try {
      NotPlainException.require(isPlain(line) && PlainTexts.isUtf8(line));
      return PlainRows.marked(values(line));
    } catch (NotPlainException | NumberFormatException | ArithmeticException notPlain) {
      return null;
    }
  }

  /** Spark passes over lines of white space. */
  private boolean isPlain(byte[] line) {
    for (byte each : line) {
      if (each >= 0 && isSpecial[each]) {
        return false;
      }
    }
    return line.length > 0 && line[0] > ' ';
  }

  private Object[] values(byte[] line) {
    Object[] values = new Object[readers.length + PlainRows.MORE];
    int begin = 0;
    for (int place = 0; place < readers.length; place++) {
      NotPlainException.require(begin <= line.length);
      int end = endOf(line, begin);
      values[place] = isNull(line, begin, end) ? null : readers[place].read(line, begin, end);
      begin = end + 1;
    }
    NotPlainException.require(begin == line.length + 1);
    return values;
  }

  private boolean isNull(byte[] line, int begin, int end) {
    return begin == end || Arrays.equals(line, begin, end, nullText, 0, nullText.length);
  }

  private int endOf(byte[] line, int begin) {
    int end = begin;
    while (end < line.length && line[end] != delimiter) {
      end++;
    }
    return end;
  }

  @Override
  public String toString() {
    return "plain CSV";
  }
}
