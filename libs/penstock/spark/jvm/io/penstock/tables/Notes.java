package io.penstock.tables;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;

/** JSON whose text is the same for the same content. */
final class Notes {
  private static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

  private Notes() {}

  static String text(Object content) {
    try {
      return JSON.writeValueAsString(content);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  static JsonNode parse(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("a note of tables cannot be read: " + text, error);
    }
  }
}
