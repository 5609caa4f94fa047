package io.penstock.sources;

import io.penstock.spark42.DirectCall;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.avro.AvroSerializer;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** Converts a row to an Avro datum, as Spark's {@code to_avro} does; with an id, after the frame of Confluent. */
public final class AvroEncoder implements Serializable {
  private final DataType type;
  private final String schemaText;
  private final byte[] frame;
  // Not serializable and not safe for use by several threads.
  private transient ThreadLocal<Writer> writers;

  /** {@code id} is that of the schema in a registry; null without one. */
  public AvroEncoder(DataType type, String schemaText, Integer id) {
    this.type = type;
    this.schemaText = schemaText;
    this.frame = id == null ? new byte[0] : Frame.of(id);
  }

  /** The schema of Avro for rows of a type. Throws where a type or a name of a column is none of Avro. */
  public static String schemaOf(DataType type, String name) {
    return SchemaConverters.toAvroType(type, false, name, "").toString();
  }

  /** Why data of a writer's schema cannot be read with a reader's; null if they can. */
  public static String misfit(String reader, String writer) {
    SchemaCompatibility.SchemaCompatibilityResult result = SchemaCompatibility
        .checkReaderWriterCompatibility(new Schema.Parser().parse(reader), new Schema.Parser().parse(writer)).getResult();
    return result.getIncompatibilities().stream()
        .map(each -> each.getLocation() + ": " + each.getMessage()).findFirst().orElse(null);
  }

  /** The bytes of a column of rows. */
  public Column encoded(Column rows) {
    return DirectCall.of(this, "encode", DataTypes.BinaryType, rows);
  }

  /** For Spark's plan. */
  public byte[] encode(InternalRow row) throws IOException {
    return writer().write(row);
  }

  @Override
  public String toString() {
    return "avro";
  }

  private synchronized Writer writer() {
    if (writers == null) {
      writers = ThreadLocal.withInitial(() -> new Writer(type, new Schema.Parser().parse(schemaText), frame));
    }
    return writers.get();
  }

  private static final class Writer {
    private final AvroSerializer serializer;
    private final GenericDatumWriter<Object> datums;
    private final byte[] frame;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private BinaryEncoder reused;

    Writer(DataType type, Schema schema, byte[] frame) {
      serializer = new AvroSerializer(type, schema, false);
      datums = new GenericDatumWriter<>(schema);
      this.frame = frame;
    }

    byte[] write(InternalRow row) throws IOException {
      bytes.reset();
      bytes.write(frame);
      reused = EncoderFactory.get().directBinaryEncoder(bytes, reused);
      datums.write(serializer.serialize(row), reused);
      reused.flush();
      return bytes.toByteArray();
    }
  }
}
