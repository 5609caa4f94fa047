package io.penstock.bench;

import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.penstock.spark42.DirectCall;
import java.io.Serializable;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Messages of texts, numbers and timestamps to rows and back, as plainly as Protobuf's own library does it: a {@code
 * DynamicMessage}, field by field. So do Spark's functions for Protobuf, whose jar cannot be had.
 */
public final class BareProtobuf implements Serializable {
  private static final long MICROS = 1_000_000L;
  private static final int NANOS_OF_A_MICRO = 1_000;

  private final String set;
  private final String name;
  private final DataType type;
  private transient volatile Descriptor descriptor;

  /** The message {@code name} of a descriptor set, in base64; the rows have a column for each of its fields. */
  public BareProtobuf(String set, String name, DataType type) {
    this.set = set;
    this.name = name;
    this.type = type;
  }

  /** The rows of a column of messages. */
  public Column decoded(Column bytes) {
    return DirectCall.of(this, "decode", type, bytes);
  }

  /** The messages of a column of rows. */
  public Column encoded(Column rows) {
    return DirectCall.of(this, "encode", DataTypes.BinaryType, rows);
  }

  /** For Spark's plan. */
  public Object decode(byte[] bytes) throws InvalidProtocolBufferException {
    DynamicMessage message = DynamicMessage.parseFrom(descriptor(), bytes);
    List<FieldDescriptor> fields = descriptor().getFields();
    Object[] values = new Object[fields.size()];
    for (int index = 0; index < values.length; index++) {
      FieldDescriptor field = fields.get(index);
      values[index] = field.hasPresence() && !message.hasField(field) ? null : read(message.getField(field));
    }
    return new GenericInternalRow(values);
  }

  /** For Spark's plan. */
  public byte[] encode(InternalRow row) {
    DynamicMessage.Builder message = DynamicMessage.newBuilder(descriptor());
    List<FieldDescriptor> fields = descriptor().getFields();
    for (int index = 0; index < fields.size(); index++) {
      if (!row.isNullAt(index)) {
        message.setField(fields.get(index), written(fields.get(index), row, index));
      }
    }
    return message.build().toByteArray();
  }

  private static Object read(Object value) {
    if (value instanceof String text) {
      return UTF8String.fromString(text);
    }
    if (value instanceof Message time) {
      List<FieldDescriptor> parts = time.getDescriptorForType().getFields();
      int nanos = (Integer) time.getField(parts.get(1));
      return (Long) time.getField(parts.get(0)) * MICROS + nanos / NANOS_OF_A_MICRO;
    }
    return value;
  }

  private static Object written(FieldDescriptor field, InternalRow row, int index) {
    return switch (field.getJavaType()) {
      case STRING -> row.getUTF8String(index).toString();
      case DOUBLE -> row.getDouble(index);
      case LONG -> row.getLong(index);
      case MESSAGE -> time(field.getMessageType(), row.getLong(index));
      default -> throw new IllegalArgumentException(field.getFullName());
    };
  }

  private static DynamicMessage time(Descriptor timestamp, long micros) {
    List<FieldDescriptor> parts = timestamp.getFields();
    return DynamicMessage.newBuilder(timestamp)
        .setField(parts.get(0), Math.floorDiv(micros, MICROS))
        .setField(parts.get(1), (int) Math.floorMod(micros, MICROS) * NANOS_OF_A_MICRO)
        .build();
  }

  private Descriptor descriptor() {
    if (descriptor == null) {
      descriptor = found();
    }
    return descriptor;
  }

  private Descriptor found() {
    Map<String, FileDescriptor> files = new HashMap<>();
    try {
      for (FileDescriptorProto file : FileDescriptorSet.parseFrom(Base64.getDecoder().decode(set)).getFileList()) {
        FileDescriptor[] imports = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
        files.put(file.getName(), FileDescriptor.buildFrom(file, imports));
      }
    } catch (InvalidProtocolBufferException | DescriptorValidationException error) {
      throw new IllegalArgumentException("no descriptor set", error);
    }
    return files.values().stream()
        .flatMap(file -> file.getMessageTypes().stream())
        .filter(message -> message.getFullName().equals(name))
        .findFirst()
        .orElseThrow();
  }
}
