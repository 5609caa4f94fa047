package io.penstock.sources;

import java.io.IOException;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.avro.AvroDeserializer;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.Option;

/**
 * Converts one Avro datum to a row, and malformed bytes to null, as Spark's {@code from_avro} does in PERMISSIVE mode.
 * Spark has Avro's types and deserializer, but {@code from_avro} is in a jar that the registry lacks.
 */
public final class AvroDecoder implements UDF1<byte[], Object> {
  private static final String NO_PREFIX = "";
  private static final int NO_RECURSION = -1;

  private final String schemaText;
  // Not serializable and not safe for use by several threads.
  private transient ThreadLocal<Reader> readers;

  public AvroDecoder(String schemaText) {
    this.schemaText = schemaText;
  }

  /** Spark's type of the rows. Throws when the text is not an Avro schema. */
  public DataType dataType() {
    return SchemaConverters.toSqlType(schema()).dataType();
  }

  /** The decoder as a function of Spark SQL. Py4J cannot choose between Spark's overloads of {@code udf}, Java can. */
  public UserDefinedFunction function() {
    return functions.udf((UDF1<byte[], Object>) this, dataType());
  }

  /** Why the bytes are malformed, as a function of Spark SQL; null for others. */
  public UserDefinedFunction reasons() {
    return functions.udf((UDF1<byte[], String>) this::reason, DataTypes.StringType);
  }

  @Override
  public Object call(byte[] bytes) {
    try {
      return bytes == null ? null : reader().read(bytes);
    } catch (IOException | AvroRuntimeException | IndexOutOfBoundsException | NegativeArraySizeException malformed) {
      return null;
    }
  }

  private String reason(byte[] bytes) {
    try {
      return bytes == null || reader().read(bytes) != null ? null : "the datum is null";
    } catch (IOException | AvroRuntimeException | IndexOutOfBoundsException | NegativeArraySizeException malformed) {
      return malformed.toString();
    }
  }

  private Schema schema() {
    return new Schema.Parser().parse(schemaText);
  }

  private synchronized Reader reader() {
    if (readers == null) {
      readers = ThreadLocal.withInitial(() -> new Reader(schema(), dataType()));
    }
    return readers.get();
  }

  private static final class Reader {
    private final GenericDatumReader<Object> datums;
    private final AvroDeserializer deserializer;
    private final Function1<Object, Object> toRow;
    private BinaryDecoder reused;

    Reader(Schema schema, DataType type) {
      datums = new GenericDatumReader<>(schema);
      deserializer = new AvroDeserializer(schema, type, "CORRECTED", false, NO_PREFIX, NO_RECURSION);
      toRow = CatalystTypeConverters.createToScalaConverter(type);
    }

    Object read(byte[] bytes) throws IOException {
      reused = DecoderFactory.get().binaryDecoder(bytes, reused);
      Option<Object> row = deserializer.deserialize(datums.read(null, reused));
      return row.isDefined() ? toRow.apply(row.get()) : null;
    }
  }
}
