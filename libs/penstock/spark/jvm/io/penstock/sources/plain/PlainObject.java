package io.penstock.sources.plain;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.types.StructField;

/** Reads the fields of a JSON object, and passes over those that it does not know. */
final class PlainObject implements Serializable {
  private final String[] names;
  private final PlainValue[] readers;
  private final Map<String, Integer> places;

  private PlainObject(String[] names, PlainValue[] readers, Map<String, Integer> places) {
    this.names = names;
    this.readers = readers;
    this.places = places;
  }

  /** Throws NotPlainException for a type that only Spark reads, and for two fields of one name. */
  static PlainObject of(StructField[] fields, PlainTexts texts) {
    String[] names = new String[fields.length];
    PlainValue[] readers = new PlainValue[fields.length];
    Map<String, Integer> places = new HashMap<>();
    for (int place = 0; place < fields.length; place++) {
      names[place] = fields[place].name();
      readers[place] = PlainValue.of(fields[place].dataType(), texts);
      NotPlainException.require(places.put(names[place], place) == null);
    }
    return new PlainObject(names, readers, places);
  }

  /**
   * The values of the object that the parser is at the begin of. Throws NotPlainException.
   *
   * @param more how many more values there are to be room for
   */
  Object[] values(JsonParser parser, int more) throws IOException {
    NotPlainException.require(parser.currentToken() == JsonToken.START_OBJECT);
    Object[] values = new Object[names.length + more];
    boolean[] found = new boolean[names.length];
    int expected = 0;
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      JsonToken token = parser.nextToken();
      int place = placeOf(name, expected);
      if (place < 0) {
        parser.skipChildren();
        continue;
      }
      NotPlainException.require(!found[place]);
      found[place] = true;
      values[place] = token == JsonToken.VALUE_NULL ? null : readers[place].read(parser, token);
      expected = place + 1;
    }
    NotPlainException.require(parser.currentToken() == JsonToken.END_OBJECT);
    return values;
  }

  /** Most records have their fields in the order of the schema. */
  private int placeOf(String name, int expected) {
    if (expected < names.length && names[expected].equals(name)) {
      return expected;
    }
    return places.getOrDefault(name, -1);
  }
}
