package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import java.util.LinkedHashSet;
import java.util.Set;

/** How the columns of one message are made: its option, and the limits of a schema. For use by one thread. */
final class Columns {
  private static final int MOST_FIELDS = 10_000;

  private final boolean zeros;
  private final Set<String> around = new LinkedHashSet<>();
  private int fields;

  Columns(boolean zeros, Descriptor message) {
    this.zeros = zeros;
    around.add(message.getFullName());
  }

  /** Whether a field without presence that a message does not have is its zero value, and not null. */
  boolean zeros() {
    return zeros;
  }

  /** Counts a field, of whatever depth. Throws IllegalArgumentException for too many. */
  void count(FieldDescriptor field) {
    if (++fields > MOST_FIELDS) {
      throw new IllegalArgumentException(
          "the message has more than " + MOST_FIELDS + " fields, with those of the messages in it: " + field.getFullName());
    }
  }

  /** A message within the others begins. Throws IllegalArgumentException for one that contains itself. */
  void enter(FieldDescriptor field) {
    String name = field.getMessageType().getFullName();
    if (!around.add(name)) {
      throw new IllegalArgumentException(
          "the message " + name + " contains itself (" + field.getFullName() + "): a column has no type without an end");
    }
  }

  /** It ends. */
  void leave(FieldDescriptor field) {
    around.remove(field.getMessageType().getFullName());
  }
}
