package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.UnknownFieldSet;
import io.penstock.sources.UnreadableValueException;

/** A parser takes a field that is written as another wire type than the schema's for an unknown one. */
final class DeclaredTypes {
  private DeclaredTypes() {}

  /** Throws UnreadableValueException when the unknown fields of a message have numbers of its schema. */
  static void require(Message message, String path) {
    UnknownFieldSet unknown = message.getUnknownFields();
    if (unknown.isEmpty()) {
      return;
    }
    for (int number : unknown.asMap().keySet()) {
      FieldDescriptor field = message.getDescriptorForType().findFieldByNumber(number);
      if (field != null) {
        throw new UnreadableValueException(
            "the field " + path + field.getName() + " (" + number + ") is written as another type than the schema has");
      }
    }
  }
}
