package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.OneofDescriptor;
import com.google.protobuf.DynamicMessage;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Writes rows as messages of one type, each column into the field with its name, whatever the case. A null is a field
 * that the message does not have. For use by many threads.
 */
final class MessageWriter {
  private final Descriptor message;
  private final List<Column> columns;
  private final boolean hasOneof;

  private record Column(String path, int place, DataType type, FieldDescriptor field, Conversion conversion) {}

  private MessageWriter(Descriptor message, List<Column> columns) {
    this.message = message;
    this.columns = columns;
    this.hasOneof = columns.stream().anyMatch(column -> column.field.getRealContainingOneof() != null);
  }

  /** The writer of rows. Throws IllegalArgumentException with all that does not fit. */
  static MessageWriter of(StructType row, Descriptor message) {
    Misfits misfits = new Misfits();
    MessageWriter writer = nested(row, message, "", misfits);
    misfits.requireNone();
    return writer;
  }

  /** Of a struct whose columns begin with {@code path}. What does not fit is added to {@code misfits}. */
  static MessageWriter nested(StructType row, Descriptor message, String path, Misfits misfits) {
    Set<FieldDescriptor> written = new HashSet<>();
    List<Column> columns = new ArrayList<>();
    for (int place = 0; place < row.length(); place++) {
      StructField column = row.fields()[place];
      String name = path + column.name();
      FieldDescriptor field = fieldOf(message, column.name());
      if (field == null) {
        misfits.add("the message " + message.getFullName() + " has no field for the column " + name);
      } else if (!written.add(field)) {
        misfits.add("two columns are for the field " + field.getFullName());
      } else {
        int at = place;
        WrittenType.of(column.dataType(), field, name, misfits).ifPresent(
            conversion -> columns.add(new Column(name, at, column.dataType(), field, conversion)));
      }
    }
    for (FieldDescriptor field : message.getFields()) {
      if (field.isRequired() && !written.contains(field)) {
        misfits.add("no column is for the required field " + field.getFullName());
      }
    }
    return new MessageWriter(message, columns);
  }

  /** The field with this name, or else the only one whose name differs by case; null without. */
  static FieldDescriptor fieldOf(Descriptor message, String name) {
    FieldDescriptor exact = message.findFieldByName(name);
    if (exact != null) {
      return exact;
    }
    List<FieldDescriptor> others =
        message.getFields().stream().filter(field -> field.getName().equalsIgnoreCase(name)).toList();
    return others.size() == 1 ? others.get(0) : null;
  }

  /** The message of a row. Throws IllegalArgumentException for a value that the message cannot hold. */
  DynamicMessage write(InternalRow row) {
    DynamicMessage.Builder made = DynamicMessage.newBuilder(message);
    for (Column column : columns) {
      if (!row.isNullAt(column.place)) {
        requireFree(made, column);
        made.setField(column.field, column.conversion.of(row.get(column.place, column.type)));
      } else if (column.field.isRequired()) {
        throw new IllegalArgumentException(
            "the column " + column.path + " is null, and the field " + column.field.getFullName() + " is required");
      }
    }
    return made.build();
  }

  private void requireFree(DynamicMessage.Builder made, Column column) {
    OneofDescriptor oneof = hasOneof ? column.field.getRealContainingOneof() : null;
    if (oneof != null && made.hasOneof(oneof)) {
      throw new IllegalArgumentException(
          "the columns " + made.getOneofFieldDescriptor(oneof).getName() + " and " + column.path
              + " both have a value, and a message has one of them (" + oneof.getFullName() + ")");
    }
  }
}
