package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import java.util.Set;

/** Messages of Protobuf itself that a column of one value stands for. */
enum WellKnown {
  TIMESTAMP, DURATION, WRAPPER, NONE;

  static final int SECONDS = 1;
  static final int NANOS = 2;
  static final int VALUE = 1;
  static final long MICROS = 1_000_000;
  static final int NANOS_OF_MICRO = 1_000;
  static final int NANOS_OF_SECOND = 1_000_000_000;
  /** 0001-01-01T00:00:00Z. */
  static final long FIRST_SECOND = -62_135_596_800L;
  /** 9999-12-31T23:59:59Z. */
  static final long LAST_SECOND = 253_402_300_799L;
  /** Of a duration: 10,000 years. */
  static final long LONGEST_SECONDS = 315_576_000_000L;
  private static final Set<String> WRAPPERS = Set.of(
      "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue", "StringValue",
      "BytesValue");

  /** What a message is. One that only has such a name is none of them. */
  static WellKnown of(Descriptor message) {
    if (!message.getFile().getPackage().equals("google.protobuf")) {
      return NONE;
    }
    if (isOfSeconds(message)) {
      return message.getName().equals("Timestamp") ? TIMESTAMP : DURATION;
    }
    boolean wraps = WRAPPERS.contains(message.getName()) && message.getFields().size() == 1
        && message.findFieldByNumber(VALUE) != null;
    return wraps ? WRAPPER : NONE;
  }

  private static boolean isOfSeconds(Descriptor message) {
    FieldDescriptor seconds = message.findFieldByNumber(SECONDS);
    FieldDescriptor nanos = message.findFieldByNumber(NANOS);
    return Set.of("Timestamp", "Duration").contains(message.getName()) && message.getFields().size() == 2
        && seconds != null && seconds.getType() == FieldDescriptor.Type.INT64 && !seconds.isRepeated()
        && nanos != null && nanos.getType() == FieldDescriptor.Type.INT32 && !nanos.isRepeated();
  }

  /** Whether seconds and nanoseconds are a time of the years 1 to 9999. */
  static boolean isTime(long seconds, long nanos) {
    return seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos < NANOS_OF_SECOND;
  }

  /** Whether they are a duration: both have one sign. */
  static boolean isDuration(long seconds, long nanos) {
    return seconds >= -LONGEST_SECONDS && seconds <= LONGEST_SECONDS
        && nanos > -NANOS_OF_SECOND && nanos < NANOS_OF_SECOND
        && (seconds >= 0 || nanos <= 0) && (seconds <= 0 || nanos >= 0);
  }
}
