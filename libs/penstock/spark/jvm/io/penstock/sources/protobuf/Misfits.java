package io.penstock.sources.protobuf;

import com.google.protobuf.Descriptors.FieldDescriptor;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.types.DataType;

/** What of the columns of a query does not fit a message. For use by one thread. */
final class Misfits {
  private static final int MOST_TOLD = 10;

  private final List<String> found = new ArrayList<>();

  void add(String text) {
    found.add(text);
  }

  /** A column whose type is none of its field. */
  void add(DataType type, FieldDescriptor field, String path) {
    String kind = field.isMapField() ? "map" : (field.isRepeated() ? "repeated " : "") + typeOf(field);
    add("the column " + path + " is " + type.catalogString() + ", and the field " + field.getFullName() + " is " + kind);
  }

  private static String typeOf(FieldDescriptor field) {
    return switch (field.getType()) {
      case MESSAGE, GROUP -> field.getMessageType().getFullName();
      case ENUM -> field.getEnumType().getFullName();
      default -> field.getType().name().toLowerCase(Locale.ROOT);
    };
  }

  /** Throws IllegalArgumentException when there are any. */
  void requireNone() {
    if (!found.isEmpty()) {
      String more = found.size() > MOST_TOLD ? "; and " + (found.size() - MOST_TOLD) + " more" : "";
      throw new IllegalArgumentException(String.join("; ", found.subList(0, Math.min(MOST_TOLD, found.size()))) + more);
    }
  }
}
