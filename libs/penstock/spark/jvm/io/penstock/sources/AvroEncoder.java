package io.penstock.sources;

import io.penstock.spark42.DirectCall;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.util.Arrays;
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
  // Not serializable, and of one thread: each of Spark's tasks has an encoder of its own.
  private transient Writer writer;

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

  private Writer writer() {
    Writer known = writer;
    if (known == null || known.owner != Thread.currentThread()) {
      known = new Writer(type, new Schema.Parser().parse(schemaText), frame);
      writer = known;
    }
    return known;
  }

  private static final class Writer {
    private final Thread owner = Thread.currentThread();
    private final AvroSerializer serializer;
    private final GenericDatumWriter<Object> datums;
    private final Bytes bytes;
    private final BinaryEncoder encoder;

    Writer(DataType type, Schema schema, byte[] frame) {
      serializer = new AvroSerializer(type, schema, false);
      datums = new GenericDatumWriter<>(schema);
      bytes = new Bytes(frame);
      encoder = EncoderFactory.get().directBinaryEncoder(bytes, null);
    }

    byte[] write(InternalRow row) throws IOException {
      bytes.reset();
      datums.write(serializer.serialize(row), encoder);
      encoder.flush();
      return bytes.copy();
    }
  }

  /** The bytes of a value behind its frame. Unlike {@code ByteArrayOutputStream} it takes no lock for each of them. */
  private static final class Bytes extends OutputStream {
    private static final int FIRST = 128;

    private final int begin;
    private byte[] buffer;
    private int length;

    Bytes(byte[] frame) {
      begin = frame.length;
      buffer = Arrays.copyOf(frame, begin + FIRST);
    }

    void reset() {
      length = begin;
    }

    byte[] copy() {
      return Arrays.copyOf(buffer, length);
    }

    @Override
    public void write(int value) {
      makeRoom(1);
      buffer[length++] = (byte) value;
    }

    @Override
    public void write(byte[] from, int offset, int count) {
      makeRoom(count);
      System.arraycopy(from, offset, buffer, length, count);
      length += count;
    }

    private void makeRoom(int count) {
      if (count > buffer.length - length) {
        buffer = Arrays.copyOf(buffer, Math.addExact(length, Math.max(length, count)));
      }
    }
  }
}
