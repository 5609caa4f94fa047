package io.penstock.sources.protobuf;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.InvalidProtocolBufferException;
import io.penstock.sources.Frame;
import io.penstock.sources.UnreadableValueException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;

/**
 * Which message of its file a framed record is: behind the frame come the places of the message and of those around it,
 * outermost first, as their number and then each. {@code [0]} is written as the one byte 0.
 *
 * @param bytes how many bytes they take
 */
record MessageIndexes(List<Integer> places, int bytes) {
  private static final int DEEPEST = 100;
  private static final List<Integer> FIRST = List.of(0);

  /** Those of a message in its file. */
  static List<Integer> of(Descriptor message) {
    List<Integer> found = new ArrayList<>();
    for (Descriptor each = message; each != null; each = each.getContainingType()) {
      found.add(0, each.getIndex());
    }
    return found;
  }

  /** Those behind the frame of a value. Throws UnreadableValueException. */
  static MessageIndexes in(byte[] value) {
    try {
      CodedInputStream input = CodedInputStream.newInstance(value, Frame.BYTES, value.length - Frame.BYTES);
      int count = input.readSInt32();
      if (count < 0 || count > DEEPEST) {
        throw new UnreadableValueException("the frame has " + count + " indexes of messages");
      }
      List<Integer> found = new ArrayList<>(count);
      for (int place = 0; place < count; place++) {
        found.add(input.readSInt32());
      }
      return new MessageIndexes(found.isEmpty() ? FIRST : found, input.getTotalBytesRead());
    } catch (InvalidProtocolBufferException error) {
      throw new UnreadableValueException("the value ends within the indexes of its frame, or they are none");
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** The bytes of indexes. */
  static byte[] written(List<Integer> places) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      CodedOutputStream output = CodedOutputStream.newInstance(bytes);
      if (places.equals(FIRST)) {
        output.writeSInt32NoTag(0);
      } else {
        output.writeSInt32NoTag(places.size());
        for (int place : places) {
          output.writeSInt32NoTag(place);
        }
      }
      output.flush();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return bytes.toByteArray();
  }

  /** The descriptor of a file that a registry gave; empty when it gave the text of the file. */
  static Optional<FileDescriptorProto> file(String schema) {
    try {
      return Optional.of(FileDescriptorProto.parseFrom(Base64.getDecoder().decode(schema)));
    } catch (IllegalArgumentException | InvalidProtocolBufferException text) {
      return Optional.empty();
    }
  }

  /** The full name of the message in the file of its writer; empty when the file has none there. */
  Optional<String> nameIn(FileDescriptorProto file) {
    List<String> names = new ArrayList<>();
    if (!file.getPackage().isEmpty()) {
      names.add(file.getPackage());
    }
    List<DescriptorProto> messages = file.getMessageTypeList();
    for (int place : places) {
      if (place < 0 || place >= messages.size()) {
        return Optional.empty();
      }
      names.add(messages.get(place).getName());
      messages = messages.get(place).getNestedTypeList();
    }
    return Optional.of(String.join(".", names));
  }
}
