package io.penstock.sources.protobuf;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.penstock.sources.UnreadableValueException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What one value of a field is in Spark, and how it is read.
 *
 * @param conversion takes what a parser gives for the wide field
 */
record ValueType(DataType type, Conversion conversion) {
  private static final int DIGITS_OF_UNSIGNED = 20;
  private static final long LARGEST_UNSIGNED_INT = 0xFFFF_FFFFL;
  private static final Conversion SAME = value -> value;

  /** The type of a value of a field; empty for a message without fields. */
  static Optional<ValueType> of(FieldDescriptor declared, FieldDescriptor wide, String path, Columns columns) {
    return switch (declared.getType()) {
      case MESSAGE, GROUP -> message(declared, wide, path, columns);
      default -> Optional.of(scalar(declared, path));
    };
  }

  private static ValueType scalar(FieldDescriptor declared, String path) {
    return switch (declared.getType()) {
      case BOOL -> new ValueType(DataTypes.BooleanType, SAME);
      case INT32, SINT32 -> new ValueType(DataTypes.IntegerType, value -> signed(value, path));
      case SFIXED32 -> new ValueType(DataTypes.IntegerType, SAME);
      case UINT32 -> new ValueType(DataTypes.LongType, value -> unsigned(value, path));
      case FIXED32 -> new ValueType(DataTypes.LongType, value -> Integer.toUnsignedLong((Integer) value));
      case INT64, SINT64, SFIXED64 -> new ValueType(DataTypes.LongType, SAME);
      case UINT64, FIXED64 ->
          new ValueType(DataTypes.createDecimalType(DIGITS_OF_UNSIGNED, 0), value -> decimal((Long) value));
      case FLOAT -> new ValueType(DataTypes.FloatType, SAME);
      case DOUBLE -> new ValueType(DataTypes.DoubleType, SAME);
      case STRING -> new ValueType(DataTypes.StringType, value -> text((ByteString) value, path));
      case BYTES -> new ValueType(DataTypes.BinaryType, value -> ((ByteString) value).toByteArray());
      case ENUM -> new ValueType(DataTypes.StringType, names(declared.getEnumType(), path));
      case MESSAGE, GROUP -> throw new IllegalStateException(path);
    };
  }

  private static Optional<ValueType> message(
      FieldDescriptor declared, FieldDescriptor wide, String path, Columns columns) {
    Descriptor of = declared.getMessageType();
    WellKnown wellKnown = WellKnown.of(of);
    if (wellKnown == WellKnown.TIMESTAMP) {
      return Optional.of(new ValueType(DataTypes.TimestampType, value -> time((Message) value, path)));
    }
    if (wellKnown == WellKnown.DURATION) {
      return Optional.of(new ValueType(DayTimeIntervalType.apply(), value -> duration((Message) value, path)));
    }
    columns.enter(declared);
    MessageReader reader = MessageReader.nested(of, wide.getMessageType(), path + ".", columns);
    columns.leave(declared);
    return reader.isEmpty()
        ? Optional.empty()
        : Optional.of(new ValueType(reader.type(), value -> reader.row((Message) value)));
  }

  private static Integer signed(Object value, String path) {
    long number = (Long) value;
    if ((int) number != number) {
      throw unfit(path, Long.toString(number), "32 bits with a sign");
    }
    return (int) number;
  }

  private static Long unsigned(Object value, String path) {
    long number = (Long) value;
    if (number < 0 || number > LARGEST_UNSIGNED_INT) {
      throw unfit(path, Long.toUnsignedString(number), "32 bits without a sign");
    }
    return number;
  }

  private static Decimal decimal(long bits) {
    BigDecimal value = bits >= 0 ? BigDecimal.valueOf(bits) : new BigDecimal(new BigInteger(Long.toUnsignedString(bits)));
    return Decimal.apply(value, DIGITS_OF_UNSIGNED, 0);
  }

  private static UTF8String text(ByteString bytes, String path) {
    if (!bytes.isValidUtf8()) {
      throw new UnreadableValueException("the field " + path + " is not UTF-8");
    }
    return UTF8String.fromBytes(bytes.toByteArray());
  }

  private static Conversion names(EnumDescriptor of, String path) {
    Map<Long, UTF8String> names = new HashMap<>();
    for (EnumValueDescriptor value : of.getValues()) {
      names.putIfAbsent((long) value.getNumber(), UTF8String.fromString(value.getName()));
    }
    return value -> {
      UTF8String name = names.get((Long) value);
      if (name == null) {
        throw unfit(path, value.toString(), "a number of the enum " + of.getFullName());
      }
      return name;
    };
  }

  private static Long time(Message message, String path) {
    long seconds = part(message, path, WellKnown.SECONDS);
    long nanos = part(message, path, WellKnown.NANOS);
    if (!WellKnown.isTime(seconds, nanos)) {
      throw unfit(path, seconds + " s and " + nanos + " ns", "a time of the years 1 to 9999");
    }
    return seconds * WellKnown.MICROS + nanos / WellKnown.NANOS_OF_MICRO;
  }

  private static Long duration(Message message, String path) {
    long seconds = part(message, path, WellKnown.SECONDS);
    long nanos = part(message, path, WellKnown.NANOS);
    if (!WellKnown.isDuration(seconds, nanos)) {
      throw unfit(path, seconds + " s and " + nanos + " ns", "a duration of Protobuf");
    }
    return seconds * WellKnown.MICROS + nanos / WellKnown.NANOS_OF_MICRO;
  }

  private static long part(Message message, String path, int number) {
    DeclaredTypes.require(message, path + ".");
    return (Long) message.getField(message.getDescriptorForType().findFieldByNumber(number));
  }

  private static UnreadableValueException unfit(String path, String value, String type) {
    return new UnreadableValueException("the field " + path + " has " + value + ", which is not " + type);
  }
}
