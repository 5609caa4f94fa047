package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.penstock.sources.UnreadableValueException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads messages of one type as rows, with the columns that Spark's {@code from_protobuf} gives. For use by many threads.
 *
 * <p>A field that the message does not have is null, unless the schema has a default for it. Fields with numbers that the
 * schema does not have are left out. Whatever else a declared field cannot hold makes the message unreadable.
 */
final class MessageReader {
  private final Descriptor wide;
  private final List<FieldReader> fields;
  private final String path;

  private MessageReader(Descriptor wide, List<FieldReader> fields, String path) {
    this.wide = wide;
    this.fields = fields;
    this.path = path;
  }

  /**
   * The reader of a message. Throws IllegalArgumentException when the message has no columns.
   *
   * @param zeros whether a field without presence that the message does not have is its zero value, and not null
   */
  static MessageReader of(Descriptor declared, boolean zeros) {
    MessageReader reader = nested(declared, WideMessages.of(declared), "", new Columns(zeros, declared));
    if (reader.fields.isEmpty()) {
      throw new IllegalArgumentException("the message " + declared.getFullName() + " has no fields that are columns");
    }
    return reader;
  }

  /** Of a message within another, whose fields begin with {@code path}. It may have no fields that are columns. */
  static MessageReader nested(Descriptor declared, Descriptor wide, String path, Columns columns) {
    List<FieldReader> fields = new ArrayList<>();
    for (FieldDescriptor field : declared.getFields()) {
      FieldDescriptor wideField = wide.findFieldByNumber(field.getNumber());
      FieldReader.of(field, wideField, path + field.getName(), columns).ifPresent(fields::add);
    }
    return new MessageReader(wide, fields, path);
  }

  StructType type() {
    return DataTypes.createStructType(fields.stream().map(FieldReader::field).toArray(StructField[]::new));
  }

  boolean isEmpty() {
    return fields.isEmpty();
  }

  /** The row of bytes from {@code begin} to their end. Throws UnreadableValueException. */
  InternalRow read(byte[] bytes, int begin) {
    DynamicMessage.Builder message = DynamicMessage.newBuilder(wide);
    try {
      message.mergeFrom(bytes, begin, bytes.length - begin);
    } catch (InvalidProtocolBufferException error) {
      throw new UnreadableValueException("the value is no message of " + wide.getFullName() + ": " + error.getMessage());
    }
    if (!message.isInitialized()) {
      throw new UnreadableValueException("required fields are missing: " + message.getInitializationErrorString());
    }
    return row(message.buildPartial());
  }

  InternalRow row(Message message) {
    DeclaredTypes.require(message, path);
    Object[] values = new Object[fields.size()];
    for (int place = 0; place < values.length; place++) {
      values[place] = fields.get(place).value(message);
    }
    return new GenericInternalRow(values);
  }
}
