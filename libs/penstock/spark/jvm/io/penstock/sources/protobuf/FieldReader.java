package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;

/** Reads one field of messages as a column. */
final class FieldReader {
  private final FieldDescriptor wide;
  private final StructField field;
  private final Conversion conversion;
  private final Object absent;

  private FieldReader(FieldDescriptor wide, StructField field, Conversion conversion, Object absent) {
    this.wide = wide;
    this.field = field;
    this.conversion = conversion;
    this.absent = absent;
  }

  /** The reader of a field; empty for a message without fields, as Spark has it. */
  static Optional<FieldReader> of(FieldDescriptor declared, FieldDescriptor wide, String path, Columns columns) {
    columns.count(declared);
    if (declared.isMapField()) {
      return map(declared, wide, path, columns);
    }
    return ValueType.of(declared, wide, path, columns).map(type -> declared.isRepeated()
        ? new FieldReader(wide, list(declared, type), values -> array(values, type.conversion()), null)
        : new FieldReader(wide, single(declared, type), type.conversion(), absent(declared, type, columns)));
  }

  StructField field() {
    return field;
  }

  /** The value of the column where a message does not have the field. */
  Object absent() {
    return absent;
  }

  /** The value of the column. */
  Object value(Message message) {
    if (wide.isRepeated() || message.hasField(wide)) {
      return conversion.of(message.getField(wide));
    }
    return absent;
  }

  private static StructField single(FieldDescriptor declared, ValueType type) {
    return DataTypes.createStructField(declared.getName(), type.type(), !declared.isRequired());
  }

  private static StructField list(FieldDescriptor declared, ValueType type) {
    return DataTypes.createStructField(declared.getName(), DataTypes.createArrayType(type.type(), false), true);
  }

  private static Object absent(FieldDescriptor declared, ValueType type, Columns columns) {
    boolean isZero = columns.zeros() && !declared.hasPresence();
    boolean hasDefault = declared.hasDefaultValue() && declared.getRealContainingOneof() == null;
    return hasDefault || isZero ? defaultOf(declared, type) : null;
  }

  private static Object defaultOf(FieldDescriptor declared, ValueType type) {
    return type.conversion().of(WideMessages.widened(declared, declared.getDefaultValue()));
  }

  private static Object array(Object values, Conversion conversion) {
    return new GenericArrayData(((List<?>) values).stream().map(conversion::of).toArray());
  }

  private static Optional<FieldReader> map(
      FieldDescriptor declared, FieldDescriptor wide, String path, Columns columns) {
    List<FieldDescriptor> of = declared.getMessageType().getFields();
    List<FieldDescriptor> wideOf = wide.getMessageType().getFields();
    ValueType key = ValueType.of(of.get(0), wideOf.get(0), path + ".key", columns).orElseThrow();
    return ValueType.of(of.get(1), wideOf.get(1), path + ".value", columns).map(value -> {
      MapEntries entries = new MapEntries(
          entry(of.get(0), wideOf.get(0), key), entry(of.get(1), wideOf.get(1), value), path + ".");
      StructField field = DataTypes.createStructField(
          declared.getName(), DataTypes.createMapType(key.type(), value.type(), false), true);
      return new FieldReader(wide, field, entries::map, null);
    });
  }

  /** What an entry does not have is its zero value. */
  private static FieldReader entry(FieldDescriptor declared, FieldDescriptor wide, ValueType type) {
    boolean isMessage = declared.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
    Object zero = isMessage
        ? type.conversion().of(DynamicMessage.getDefaultInstance(wide.getMessageType()))
        : defaultOf(declared, type);
    return new FieldReader(wide, single(declared, type), type.conversion(), zero);
  }

  private record MapEntries(FieldReader key, FieldReader value, String path) {
    /** Of entries with the same key the last counts. */
    Object map(Object entries) {
      Map<Object, Object> found = new LinkedHashMap<>();
      for (Object each : (List<?>) entries) {
        Message entry = (Message) each;
        DeclaredTypes.require(entry, path);
        found.put(key.value(entry), value.value(entry));
      }
      return new ArrayBasedMapData(
          new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
    }
  }
}
