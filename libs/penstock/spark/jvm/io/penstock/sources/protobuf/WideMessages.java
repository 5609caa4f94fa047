package io.penstock.sources.protobuf;

import com.google.protobuf.ByteString;
import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The same messages with fields of wider types that are the same on the wire: what a declared type cannot hold is then
 * seen, where a parser would cut it off or keep it apart. Integers and enums of varints are 64 bits wide, and texts are
 * bytes.
 */
final class WideMessages {
  private final Map<String, FileDescriptor> built = new HashMap<>();

  private WideMessages() {}

  /** The message as it is to be parsed. It has the numbers of the declared one, and no defaults. */
  static Descriptor of(Descriptor declared) {
    try {
      return sameIn(new WideMessages().file(declared.getFile()), declared);
    } catch (DescriptorValidationException error) {
      throw new IllegalArgumentException("the message cannot be read: " + error.getMessage(), error);
    }
  }

  /** A value of a declared field as a parser gives it for the wide one. */
  static Object widened(FieldDescriptor declared, Object value) {
    return switch (declared.getType()) {
      case INT32, SINT32 -> ((Integer) value).longValue();
      case UINT32 -> Integer.toUnsignedLong((Integer) value);
      case ENUM -> (long) ((EnumValueDescriptor) value).getNumber();
      case STRING -> ByteString.copyFromUtf8((String) value);
      default -> value;
    };
  }

  private static Descriptor sameIn(FileDescriptor file, Descriptor declared) {
    Descriptor parent = declared.getContainingType();
    return parent == null
        ? file.findMessageTypeByName(declared.getName())
        : sameIn(file, parent).findNestedTypeByName(declared.getName());
  }

  private FileDescriptor file(FileDescriptor declared) throws DescriptorValidationException {
    FileDescriptor known = built.get(declared.getName());
    if (known != null) {
      return known;
    }
    FileDescriptorProto.Builder wide = declared.toProto().toBuilder().clearExtension().clearService();
    for (Descriptor message : declared.getMessageTypes()) {
      widen(wide.getMessageTypeBuilder(message.getIndex()), message);
    }
    FileDescriptor[] imports = new FileDescriptor[declared.getDependencies().size()];
    for (int place = 0; place < imports.length; place++) {
      imports[place] = file(declared.getDependencies().get(place));
    }
    FileDescriptor made = FileDescriptor.buildFrom(wide.build(), imports);
    built.put(declared.getName(), made);
    return made;
  }

  private static void widen(DescriptorProto.Builder wide, Descriptor declared) {
    wide.clearExtension();
    List<FieldDescriptor> fields = declared.getFields();
    for (FieldDescriptor field : fields) {
      widen(wide.getFieldBuilder(field.getIndex()).clearDefaultValue(), field);
    }
    for (Descriptor nested : declared.getNestedTypes()) {
      widen(wide.getNestedTypeBuilder(nested.getIndex()), nested);
    }
  }

  private static void widen(FieldDescriptorProto.Builder wide, FieldDescriptor declared) {
    switch (declared.getType()) {
      case INT32 -> wide.setType(FieldDescriptorProto.Type.TYPE_INT64);
      case SINT32 -> wide.setType(FieldDescriptorProto.Type.TYPE_SINT64);
      case UINT32 -> wide.setType(FieldDescriptorProto.Type.TYPE_UINT64);
      case ENUM -> wide.setType(FieldDescriptorProto.Type.TYPE_INT64).clearTypeName();
      case STRING -> wide.setType(FieldDescriptorProto.Type.TYPE_BYTES);
      default -> { }
    }
  }
}
