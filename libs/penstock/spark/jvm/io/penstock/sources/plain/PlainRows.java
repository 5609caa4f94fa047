package io.penstock.sources.plain;

import io.penstock.spark42.DirectCall;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of records: of plain ones by Penstock's reader, of others by Spark's. A last field, {@link #MARK}, is true for
 * the first and null for the second. The one before it is Spark's field for the text of a corrupt record.
 */
public final class PlainRows implements Serializable {
  /** The name of the last field. */
  public static final String MARK = "_penstock_plain";
  /** How many more fields a row has than its record. */
  static final int MORE = 2;

  private final StructType bySpark;

  private PlainRows(StructType bySpark) {
    this.bySpark = bySpark;
  }

  /** Makes what reads the records by a method {@code read}. Throws NotPlainException for a type that only Spark reads. */
  interface Maker {
    Serializable make(StructField[] fields, PlainTexts texts);
  }

  /** Spark's rows of all records; {@code schema} is theirs, as JSON. */
  public static Column unmarked(String schema, Column bySpark) {
    StructType ofSpark = schemaOf(schema);
    return DirectCall.of(new PlainRows(ofSpark), "markless", markedOf(ofSpark), bySpark);
  }

  /**
   * @param bytes the records
   * @param schema that of Spark's rows, as JSON
   * @param bySpark their rows, if Spark reads them
   */
  static Column column(SparkSession session, Column bytes, String schema, Column bySpark, Maker maker) {
    StructType ofSpark = schemaOf(schema);
    StructType marked = markedOf(ofSpark);
    StructField[] fields = Arrays.copyOf(ofSpark.fields(), marked.size() - MORE);
    Column others = unmarked(schema, bySpark);
    try {
      Serializable reader = maker.make(fields, PlainTexts.of(session));
      return functions.coalesce(DirectCall.of(reader, "read", marked, bytes), others);
    } catch (NotPlainException onlySparkReadsIt) {
      return others;
    }
  }

  private static StructType schemaOf(String schema) {
    return ((StructType) DataType.fromJson(schema)).asNullable();
  }

  private static StructType markedOf(StructType ofSpark) {
    return ofSpark.add(MARK, DataTypes.BooleanType);
  }

  /** Values with room for {@link #MORE}, as the row of a plain record. */
  static InternalRow marked(Object[] values) {
    values[values.length - 1] = true;
    return new GenericInternalRow(values);
  }

  /** For Spark's plan: a row of Spark's with the field for the mark. */
  public InternalRow markless(InternalRow row) {
    Object[] values = new Object[bySpark.size() + 1];
    for (int place = 0; place < bySpark.size(); place++) {
      values[place] = row.get(place, bySpark.fields()[place].dataType());
    }
    return new GenericInternalRow(values);
  }

  @Override
  public String toString() {
    return "by Spark";
  }
}
