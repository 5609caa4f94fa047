package io.penstock.sources.plain;

import java.io.Serializable;
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
  private static final byte DELIMITER = ',';
  private static final String SPECIAL = "\"\\\r\n\0";

  private final PlainToken[] readers;

  private PlainCsv(PlainToken[] readers) {
    this.readers = readers;
  }

  /** As {@link PlainJson#of}. */
  public static Column of(SparkSession session, String schema, Column bytes, Column bySpark) {
    return PlainRows.column(session, schema, bytes, bySpark, PlainCsv::reader);
  }

  private static PlainCsv reader(StructField[] fields, PlainTexts texts) {
    PlainToken[] readers = new PlainToken[fields.length];
    for (int place = 0; place < fields.length; place++) {
      readers[place] = PlainToken.of(fields[place].dataType(), texts);
    }
    return new PlainCsv(readers);
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
  private static boolean isPlain(byte[] line) {
    for (byte each : line) {
      if (each <= '\\' && each >= 0 && SPECIAL.indexOf(each) >= 0) {
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
      values[place] = end == begin ? null : readers[place].read(line, begin, end);
      begin = end + 1;
    }
    NotPlainException.require(begin == line.length + 1);
    return values;
  }

  private static int endOf(byte[] line, int begin) {
    int end = begin;
    while (end < line.length && line[end] != DELIMITER) {
      end++;
    }
    return end;
  }

  @Override
  public String toString() {
    return "plain CSV";
  }
}
