package io.penstock.sources.protobuf;

import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.InvalidProtocolBufferException;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The files of a descriptor set, as {@code protoc --include_imports --descriptor_set_out} writes it. */
final class DescriptorSet {
  private final Map<String, FileDescriptorProto> files = new LinkedHashMap<>();
  private final Map<String, FileDescriptor> built = new HashMap<>();

  private DescriptorSet(List<FileDescriptorProto> files) {
    files.forEach(file -> this.files.putIfAbsent(file.getName(), file));
  }

  /** The message with this full name. Throws IllegalArgumentException when the set does not describe it. */
  static Descriptor message(String base64, String fullName) {
    try {
      FileDescriptorSet set = FileDescriptorSet.parseFrom(Base64.getDecoder().decode(base64.replaceAll("\\s", "")));
      return new DescriptorSet(set.getFileList()).message(fullName);
    } catch (InvalidProtocolBufferException error) {
      throw new IllegalArgumentException("this is no descriptor set: " + error.getMessage(), error);
    } catch (DescriptorValidationException error) {
      throw new IllegalArgumentException("the descriptor set is not valid: " + error.getMessage(), error);
    }
  }

  private Descriptor message(String fullName) throws DescriptorValidationException {
    for (FileDescriptorProto file : files.values()) {
      String prefix = file.getPackage().isEmpty() ? "" : file.getPackage() + ".";
      if (fullName.startsWith(prefix) && has(file.getMessageTypeList(), fullName.substring(prefix.length()))) {
        return found(file(file.getName(), ""), fullName.substring(prefix.length()));
      }
    }
    throw new IllegalArgumentException("the descriptor set has no message " + fullName);
  }

  /** Whether a message, perhaps within others, is among those of a file. */
  private static boolean has(List<DescriptorProto> messages, String name) {
    for (DescriptorProto message : messages) {
      if (name.equals(message.getName())) {
        return true;
      }
      String prefix = message.getName() + ".";
      if (name.startsWith(prefix) && has(message.getNestedTypeList(), name.substring(prefix.length()))) {
        return true;
      }
    }
    return false;
  }

  private static Descriptor found(FileDescriptor file, String name) {
    String[] names = name.split("\\.");
    Descriptor message = file.findMessageTypeByName(names[0]);
    for (int depth = 1; depth < names.length; depth++) {
      message = message.findNestedTypeByName(names[depth]);
    }
    return message;
  }

  private FileDescriptor file(String name, String importer) throws DescriptorValidationException {
    FileDescriptorProto file = files.get(name);
    if (file == null) {
      throw new IllegalArgumentException(
          "the descriptor set lacks " + name + ", which " + importer + " imports: write it by protoc --include_imports");
    }
    if (built.containsKey(name) && built.get(name) == null) {
      throw new IllegalArgumentException("the files of the descriptor set import each other: " + name);
    }
    if (!built.containsKey(name)) {
      built.put(name, null);
      FileDescriptor[] imports = new FileDescriptor[file.getDependencyCount()];
      for (int place = 0; place < imports.length; place++) {
        imports[place] = file(file.getDependency(place), name);
      }
      built.put(name, FileDescriptor.buildFrom(file, imports));
    }
    return built.get(name);
  }
}
