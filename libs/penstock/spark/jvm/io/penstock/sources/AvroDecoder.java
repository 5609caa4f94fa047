package io.penstock.sources;

import java.io.EOFException;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.spark.sql.avro.AvroDeserializer;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Converts one Avro datum to a row, and malformed bytes to null, as Spark's {@code from_avro} does in PERMISSIVE mode.
 * Unlike there, malformed are also a datum that other bytes follow, what {@link AvroBytes} does not take, and a time that
 * is out of the years 1 to 9999.
 *
 * <p>With a registry each record begins with the frame of Confluent: a zero byte and the id of its writer's schema.
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
      return UTF8String.fromString(told(malformed) + hint(bytes));
    }
  }

  private static String told(Exception malformed) {
    boolean endsSoon = malformed instanceof EOFException;
    return endsSoon ? "the value ends before the datum of the schema does (EOFException)" : malformed.toString();
  }

  /** What a malformed record looks like, where the job expects bare data. */
  private String hint(byte[] bytes) {
    if (registry != null || !Frame.mayBegin(bytes)) {
      return "";
    }
    return "; the value begins as with the frame of a schema registry, with a zero byte and the id "
        + Integer.toUnsignedString(Frame.idOf(bytes)) + ": if its writer uses a registry, set schema_registry to true";
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
    private final AvroBytes in = new AvroBytes();
    private final TimesInRange times;

    Reader(Schema schema, DataType type, Registry registry, WriterSchemas<Schema> writers) {
      this.schema = schema;
      this.registry = registry;
      this.writers = writers;
      bare = new GenericDatumReader<>(schema);
      times = type instanceof StructType struct ? TimesInRange.of(struct) : null;
      deserializer = new AvroDeserializer(schema, type, "CORRECTED", false, NO_PREFIX, NO_RECURSION);
    }

    Object read(byte[] bytes) throws IOException {
      GenericDatumReader<Object> datums = registry == null ? bare : readerOf(bytes);
      in.begin(bytes, registry == null ? 0 : Frame.BYTES);
      Option<Object> row = deserializer.deserialize(datums.read(null, in));
      requireNoMore(bytes.length);
      if (times != null && row.isDefined()) {
        times.require((InternalRow) row.get());
      }
      return row.isDefined() ? row.get() : null;
    }

    /** A datum of another schema may be one of this schema and other bytes. */
    private void requireNoMore(int length) throws IOException {
      int left = in.left();
      if (left > 0) {
        throw new UnreadableValueException(
            "the schema takes " + (length - left) + " of the " + length + " bytes of the value: it is not its writer's");
      }
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
