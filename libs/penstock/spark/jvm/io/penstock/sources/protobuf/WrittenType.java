package io.penstock.sources.protobuf;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DynamicMessage;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** How a value of Spark's is written into a field. A value that the field cannot hold is an error, and never cut off. */
final class WrittenType {
  private static final long LARGEST_UNSIGNED_INT = 0xFFFF_FFFFL;
  private static final int BITS_OF_LONG = 64;

  private WrittenType() {}

  /** The conversion of a column; empty, and added to {@code misfits}, when its type is none of the field. */
  static Optional<Conversion> of(DataType type, FieldDescriptor field, String path, Misfits misfits) {
    if (field.isMapField() && type instanceof MapType map) {
      return map(map, field, path, misfits);
    }
    if (field.isMapField() || field.isRepeated() != type instanceof ArrayType) {
      misfits.add(type, field, path);
      return Optional.empty();
    }
    if (type instanceof ArrayType array) {
      return single(array.elementType(), field, path, misfits)
          .map(element -> values -> list((ArrayData) values, array.elementType(), element, path));
    }
    return single(type, field, path, misfits);
  }

  private static Optional<Conversion> single(DataType type, FieldDescriptor field, String path, Misfits misfits) {
    boolean isMessage = field.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
    if (isMessage && type instanceof StructType struct) {
      MessageWriter writer = MessageWriter.nested(struct, field.getMessageType(), path + ".", misfits);
      return Optional.of(row -> writer.write((InternalRow) row));
    }
    Conversion found = isMessage ? wellKnown(type, field.getMessageType(), path) : scalar(type, field, path);
    if (found == null) {
      misfits.add(type, field, path);
    }
    return Optional.ofNullable(found);
  }

  /** Null when the type is none of the field. */
  private static Conversion scalar(DataType type, FieldDescriptor field, String path) {
    return switch (field.getType()) {
      case BOOL -> type instanceof BooleanType ? value -> value : null;
      case INT32, SINT32, SFIXED32 -> isInteger(type) ? value -> ((Number) value).intValue() : null;
      case INT64, SINT64, SFIXED64 -> isInteger(type) || type instanceof LongType
          ? value -> ((Number) value).longValue() : null;
      case UINT32, FIXED32 -> isInteger(type) || type instanceof LongType
          ? value -> unsignedInt(((Number) value).longValue(), path) : null;
      case UINT64, FIXED64 -> isInteger(type) || type instanceof LongType || isWhole(type)
          ? value -> unsignedLong(value, path) : null;
      case FLOAT -> type instanceof FloatType ? value -> value : null;
      case DOUBLE -> type instanceof DoubleType || type instanceof FloatType
          ? value -> ((Number) value).doubleValue() : null;
      case STRING -> type instanceof StringType ? value -> text((UTF8String) value, path) : null;
      case BYTES -> type instanceof BinaryType ? value -> ByteString.copyFrom((byte[]) value) : null;
      case ENUM -> type instanceof StringType ? value -> named(value.toString(), field.getEnumType(), path) : null;
      case MESSAGE, GROUP -> throw new IllegalStateException(path);
    };
  }

  private static Conversion wellKnown(DataType type, Descriptor message, String path) {
    return switch (WellKnown.of(message)) {
      case TIMESTAMP -> type instanceof TimestampType ? micros -> time((Long) micros, message, path) : null;
      case DURATION -> type instanceof DayTimeIntervalType ? micros -> duration((Long) micros, message, path) : null;
      case WRAPPER -> wrapper(type, message, path);
      case NONE -> null;
    };
  }

  private static Conversion wrapper(DataType type, Descriptor message, String path) {
    FieldDescriptor field = message.findFieldByNumber(WellKnown.VALUE);
    Conversion inner = scalar(type, field, path);
    return inner == null
        ? null
        : value -> DynamicMessage.newBuilder(message).setField(field, inner.of(value)).build();
  }

  private static boolean isInteger(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType;
  }

  private static boolean isWhole(DataType type) {
    return type instanceof DecimalType decimal && decimal.scale() == 0;
  }

  private static Integer unsignedInt(long value, String path) {
    if (value < 0 || value > LARGEST_UNSIGNED_INT) {
      throw unfit(path, value, "32 bits without a sign");
    }
    return (int) value;
  }

  private static Long unsignedLong(Object value, String path) {
    BigInteger number = value instanceof Decimal decimal
        ? decimal.toJavaBigInteger()
        : BigInteger.valueOf(((Number) value).longValue());
    if (number.signum() < 0 || number.bitLength() > BITS_OF_LONG) {
      throw unfit(path, number, "64 bits without a sign");
    }
    return number.longValue();
  }

  private static String text(UTF8String value, String path) {
    if (!value.isValid()) {
      throw unfit(path, "the text " + value, "UTF-8");
    }
    return value.toString();
  }

  private static EnumValueDescriptor named(String name, EnumDescriptor of, String path) {
    EnumValueDescriptor found = of.findValueByName(name);
    if (found == null) {
      throw unfit(path, name, "a name of the enum " + of.getFullName());
    }
    return found;
  }

  private static DynamicMessage time(long micros, Descriptor message, String path) {
    long seconds = Math.floorDiv(micros, WellKnown.MICROS);
    int nanos = (int) Math.floorMod(micros, WellKnown.MICROS) * WellKnown.NANOS_OF_MICRO;
    if (!WellKnown.isTime(seconds, nanos)) {
      throw unfit(path, seconds + " s since 1970", "a time of the years 1 to 9999");
    }
    return ofSeconds(message, seconds, nanos);
  }

  private static DynamicMessage duration(long micros, Descriptor message, String path) {
    long seconds = micros / WellKnown.MICROS;
    int nanos = (int) (micros % WellKnown.MICROS) * WellKnown.NANOS_OF_MICRO;
    if (!WellKnown.isDuration(seconds, nanos)) {
      throw unfit(path, seconds + " s", "a duration of Protobuf");
    }
    return ofSeconds(message, seconds, nanos);
  }

  private static DynamicMessage ofSeconds(Descriptor message, long seconds, int nanos) {
    return DynamicMessage.newBuilder(message)
        .setField(message.findFieldByNumber(WellKnown.SECONDS), seconds)
        .setField(message.findFieldByNumber(WellKnown.NANOS), nanos)
        .build();
  }

  private static List<Object> list(ArrayData values, DataType type, Conversion conversion, String path) {
    List<Object> made = new ArrayList<>(values.numElements());
    for (int place = 0; place < values.numElements(); place++) {
      if (values.isNullAt(place)) {
        throw new IllegalArgumentException("the column " + path + " has a null among its values, which Protobuf has not");
      }
      made.add(conversion.of(values.get(place, type)));
    }
    return made;
  }

  private static Optional<Conversion> map(MapType type, FieldDescriptor field, String path, Misfits misfits) {
    Descriptor entry = field.getMessageType();
    FieldDescriptor key = entry.getFields().get(0);
    FieldDescriptor value = entry.getFields().get(1);
    Optional<Conversion> ofKeys = single(type.keyType(), key, path + ".key", misfits);
    Optional<Conversion> ofValues = single(type.valueType(), value, path + ".value", misfits);
    if (ofKeys.isEmpty() || ofValues.isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(given -> {
      MapData map = (MapData) given;
      List<Object> keys = list(map.keyArray(), type.keyType(), ofKeys.get(), path);
      List<Object> values = list(map.valueArray(), type.valueType(), ofValues.get(), path);
      List<DynamicMessage> entries = new ArrayList<>(keys.size());
      for (int place = 0; place < keys.size(); place++) {
        entries.add(DynamicMessage.newBuilder(entry)
            .setField(key, keys.get(place)).setField(value, values.get(place)).build());
      }
      return entries;
    });
  }

  private static IllegalArgumentException unfit(String path, Object value, String type) {
    return new IllegalArgumentException("the column " + path + " has " + value + ", which is not " + type);
  }
}
