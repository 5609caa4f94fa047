package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;

/**
 * A key column as readers have it. Spark's hash is of a value and its type, and a message may give another value back: a
 * null in a field without presence is zero for readers, and an enum's name is the first one of its number.
 *
 * @param type that of readers; null for a field that is not one value, which is no key
 * @param absent their value where a message does not have the field
 */
record KeyAsRead(Descriptor message, FieldDescriptor field, String name, DataType type, Object absent) {
  private static final String ELSEWHERE = ". Readers would look for the row in another partition: ";

  /** That of a column. Readers with such keys have zeros for fields without presence: a rule of their inputs. */
  static KeyAsRead of(Descriptor message, String column) {
    FieldDescriptor field = MessageWriter.fieldOf(message, column);
    if (field.isRepeated() || isMessage(field)) {
      return new KeyAsRead(message, field, column, null, null);
    }
    FieldDescriptor wide = WideMessages.of(message).findFieldByNumber(field.getNumber());
    FieldReader reader = FieldReader.of(field, wide, field.getName(), new Columns(true, message)).orElseThrow();
    return new KeyAsRead(message, field, column, reader.field().dataType(), reader.absent());
  }

  /** Whether readers have the column with this type. */
  boolean has(DataType written) {
    return type != null && type.catalogString().equalsIgnoreCase(written.catalogString());
  }

  /** Throws IllegalArgumentException, with what to do, when a column of this type has another hash than its field. */
  void require(DataType written) {
    if (type == null) {
      throw new IllegalArgumentException(
          "the column " + name + ", a key, is for the field " + field.getName() + " of " + message.getFullName()
              + ", which is " + kind() + ELSEWHERE + advice());
    }
    if (!has(written)) {
      throw new IllegalArgumentException(
          "the column " + name + " is " + written.catalogString() + ", and its field in " + message.getFullName()
              + " is read as " + type.catalogString() + ELSEWHERE + "cast the column to that type");
    }
  }

  /** The values of a column whose type readers have. */
  Column of(Column column) {
    Column named = column;
    if (field.getType() == FieldDescriptor.Type.ENUM) {
      for (EnumValueDescriptor value : field.getEnumType().getValues()) {
        String first = field.getEnumType().findValueByNumber(value.getNumber()).getName();
        if (!first.equals(value.getName())) {
          named = functions.when(column.equalTo(value.getName()), first).otherwise(named);
        }
      }
    }
    return absent == null ? named : functions.coalesce(named, ExpressionUtils.column(new Literal(absent, type)));
  }

  private static boolean isMessage(FieldDescriptor field) {
    if (field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
      return false;
    }
    WellKnown known = WellKnown.of(field.getMessageType());
    return known != WellKnown.TIMESTAMP && known != WellKnown.DURATION;
  }

  private boolean isWrapper() {
    return !field.isRepeated() && WellKnown.of(field.getMessageType()) == WellKnown.WRAPPER;
  }

  private String kind() {
    if (field.isRepeated()) {
      return field.isMapField() ? "a map" : "a list";
    }
    return "the message " + field.getMessageType().getFullName();
  }

  private String advice() {
    if (!isWrapper()) {
      return "name a column of one value";
    }
    String plain = field.getMessageType().findFieldByNumber(WellKnown.VALUE).getType().name().toLowerCase();
    return "declare the field as `optional " + plain + "`, or name another column";
  }
}
