package io.penstock.sources;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Requires of the dates and times of a row that they are in the years 1 to 9999, with a day on each side for time zones:
 * one time in the year 55840 would close every window. The same bounds are in {@code inputs/misread.py}.
 */
final class TimesInRange {
  private static final long DAY_SECONDS = 86_400;
  private static final long FIRST_SECOND = -62_135_596_800L - DAY_SECONDS;
  private static final long END_SECOND = 253_402_300_800L + DAY_SECONDS;
  private static final long MICROS = 1_000_000;

  /** Requires it of one value. */
  private interface Check {
    void require(SpecializedGetters values, int place);
  }

  private record Field(int place, Check check) {}

  private final List<Field> fields;

  private TimesInRange(List<Field> fields) {
    this.fields = fields;
  }

  /** For rows of this type. */
  static TimesInRange of(StructType type) {
    return of(type, "");
  }

  /** Throws UnreadableValueException, with the name of the field, for one that is not. */
  void require(SpecializedGetters row) {
    for (Field field : fields) {
      if (!row.isNullAt(field.place)) {
        field.check.require(row, field.place);
      }
    }
  }

  private static TimesInRange of(StructType type, String path) {
    List<Field> found = new ArrayList<>();
    for (int place = 0; place < type.fields().length; place++) {
      StructField field = type.fields()[place];
      Check check = check(field.dataType(), path + field.name());
      if (check != null) {
        found.add(new Field(place, check));
      }
    }
    return new TimesInRange(List.copyOf(found));
  }

  /** Null where a value has no time. */
  private static Check check(DataType type, String path) {
    if (type.equals(DataTypes.DateType)) {
      return (values, place) -> require(values.getInt(place) * DAY_SECONDS, path);
    }
    if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      return (values, place) -> require(Math.floorDiv(values.getLong(place), MICROS), path);
    }
    if (type instanceof StructType struct) {
      TimesInRange inner = of(struct, path + ".");
      int count = struct.fields().length;
      return inner.fields.isEmpty() ? null : (values, place) -> inner.require(values.getStruct(place, count));
    }
    if (type instanceof ArrayType array) {
      return each(check(array.elementType(), path), (values, place) -> values.getArray(place));
    }
    if (type instanceof MapType map) {
      return each(check(map.valueType(), path), (values, place) -> ((MapData) values.getMap(place)).valueArray());
    }
    return null;
  }

  private interface Elements {
    ArrayData of(SpecializedGetters values, int place);
  }

  private static Check each(Check element, Elements elements) {
    return element == null ? null : (values, place) -> {
      ArrayData found = elements.of(values, place);
      for (int i = 0; i < found.numElements(); i++) {
        if (!found.isNullAt(i)) {
          element.require(found, i);
        }
      }
    };
  }

  private static void require(long second, String path) {
    if (second < FIRST_SECOND || second >= END_SECOND) {
      throw new UnreadableValueException("the time " + path + " is out of the years 1 to 9999");
    }
  }
}
