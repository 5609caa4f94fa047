package io.penstock.sources;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.avro.AvroDeserializer;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Converts one Avro datum to a row, and malformed bytes to null, as Spark's {@code from_avro} does in PERMISSIVE mode.
 * With a registry each record begins with the frame of Confluent: a zero byte and the id of its writer's schema.
 */
public final class AvroDecoder extends RecordDecoder {
  private static final String NO_PREFIX = "";
  private static final int NO_RECURSION = -1;

  private final String schemaText;
  private final Registry registry;
  // Not serializable and not safe for use by several threads.
  private transient ThreadLocal<Reader> readers;

  /** {@code registry} is null where records are bare data of the schema. */
  public AvroDecoder(String schemaText, Registry registry) {
    this.schemaText = schemaText;
    this.registry = registry;
  }

  @Override
  public DataType dataType() {
    return SchemaConverters.toSqlType(schema()).dataType();
  }

  @Override
  public Object decode(byte[] bytes) {
    try {
      return reader().read(bytes);
    } catch (IOException | UnreadableValueException | AvroRuntimeException | IndexOutOfBoundsException
        | NegativeArraySizeException | ArithmeticException | IllegalArgumentException | ClassCastException malformed) {
      return null;
    }
  }

  @Override
  public UTF8String reason(byte[] bytes) {
    try {
      return reader().read(bytes) != null ? null : UTF8String.fromString("the datum is null");
    } catch (IOException | UnreadableValueException | AvroRuntimeException | IndexOutOfBoundsException
        | NegativeArraySizeException | ArithmeticException | IllegalArgumentException | ClassCastException malformed) {
      return UTF8String.fromString(malformed.toString());
    }
  }

  @Override
  public String toString() {
    return registry == null ? "avro" : "avro of " + registry;
  }

  private Schema schema() {
    return new Schema.Parser().parse(schemaText);
  }

  private synchronized Reader reader() {
    if (readers == null) {
      readers = ThreadLocal.withInitial(() -> new Reader(schema(), dataType(), registry, writers()));
    }
    return readers.get();
  }

  private static final class Reader {
    private final Schema schema;
    private final Registry registry;
    private final WriterSchemas<Schema> writers;
    private final GenericDatumReader<Object> bare;
    private final Map<Integer, GenericDatumReader<Object>> framed = new HashMap<>();
    private final AvroDeserializer deserializer;
    private BinaryDecoder reused;

    Reader(Schema schema, DataType type, Registry registry, WriterSchemas<Schema> writers) {
      this.schema = schema;
      this.registry = registry;
      this.writers = writers;
      bare = new GenericDatumReader<>(schema);
      deserializer = new AvroDeserializer(schema, type, "CORRECTED", false, NO_PREFIX, NO_RECURSION);
    }

    Object read(byte[] bytes) throws IOException {
      GenericDatumReader<Object> datums = registry == null ? bare : readerOf(bytes);
      int begin = registry == null ? 0 : Frame.BYTES;
      reused = DecoderFactory.get().binaryDecoder(bytes, begin, bytes.length - begin, reused);
      Option<Object> row = deserializer.deserialize(datums.read(null, reused));
      return row.isDefined() ? row.get() : null;
    }

    private GenericDatumReader<Object> readerOf(byte[] bytes) {
      int id = Frame.idOf(bytes);
      GenericDatumReader<Object> found = framed.get(id);
      if (found == null) {
        Schema writer = writers.schema(id, registry::avro);
        found = new GenericDatumReader<>(writer, schema);
        framed.put(id, found);
      }
      return found;
    }
  }
}
