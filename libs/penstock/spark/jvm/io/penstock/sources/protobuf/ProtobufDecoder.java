package io.penstock.sources.protobuf;

import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import io.penstock.sources.Frame;
import io.penstock.sources.RecentlyUsed;
import io.penstock.sources.RecordDecoder;
import io.penstock.sources.Registry;
import io.penstock.sources.UnreadableValueException;
import io.penstock.sources.WriterSchemas;
import java.io.Serializable;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Converts a message of Protobuf to a row, and malformed bytes to null. With a registry each record begins with the
 * frame of Confluent and the indexes of its message.
 */
public final class ProtobufDecoder extends RecordDecoder {
  private final Schema schema;
  private final Registry registry;
  private transient volatile Reader reader;

  /**
   * @param set the base64 of a descriptor set
   * @param message the full name of the message
   * @param zeros whether a field without presence that a record does not have is its zero value, and not null
   * @param registry null where records are bare messages
   */
  public ProtobufDecoder(String set, String message, boolean zeros, Registry registry) {
    this.schema = new Schema(set, message, zeros);
    this.registry = registry;
  }

  @Override
  public DataType dataType() {
    return reader().rows.type();
  }

  @Override
  public Object decode(byte[] bytes) {
    try {
      return read(bytes);
    } catch (UnreadableValueException malformed) {
      return null;
    }
  }

  @Override
  public UTF8String reason(byte[] bytes) {
    try {
      read(bytes);
      return null;
    } catch (UnreadableValueException malformed) {
      return UTF8String.fromString(malformed.getMessage());
    }
  }

  @Override
  public String toString() {
    return "protobuf " + schema.message + (registry == null ? "" : " of " + registry);
  }

  private Object read(byte[] bytes) {
    Reader known = reader();
    return known.rows.read(bytes, registry == null ? 0 : endOfFrame(bytes, known));
  }

  private int endOfFrame(byte[] bytes, Reader known) {
    WriterSchemas<Optional<FileDescriptorProto>> writers = writers();
    int id = Frame.idOf(bytes);
    Optional<FileDescriptorProto> file =
        writers.schema(id, number -> registry.protobuf(number).map(MessageIndexes::file));
    MessageIndexes indexes = MessageIndexes.in(bytes);
    if (file.isPresent()) {
      String name = indexes.nameIn(file.get()).orElseThrow(() -> new UnreadableValueException(
          "the schema " + Integer.toUnsignedString(id) + " of the registry has no message " + indexes.places()));
      if (!name.equals(schema.message)) {
        throw new UnreadableValueException("the record is a message " + name + ", not " + schema.message);
      }
    } else if (!indexes.places().equals(known.indexes)) {
      throw new UnreadableValueException(
          "the record is the message " + indexes.places() + " of its file, and " + schema.message + " is "
              + known.indexes);
    }
    return Frame.BYTES + indexes.bytes();
  }

  private Reader reader() {
    Reader known = reader;
    if (known == null) {
      known = Reader.of(schema);
      reader = known;
    }
    return known;
  }

  private record Schema(String set, String message, boolean zeros) implements Serializable {}

  /** What is made of a schema. Each of Spark's tasks has a decoder of its own, so those of this JVM are shared. */
  private record Reader(MessageReader rows, List<Integer> indexes) {
    private static final int MOST = 256;
    private static final RecentlyUsed<Schema, Reader> KNOWN = new RecentlyUsed<>(MOST);

    static Reader of(Schema schema) {
      return KNOWN.get(schema, Reader::made);
    }

    private static Reader made(Schema schema) {
      Descriptor message = DescriptorSet.message(schema.set, schema.message);
      return new Reader(MessageReader.of(message, schema.zeros), MessageIndexes.of(message));
    }
  }
}
