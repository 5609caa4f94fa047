package io.penstock.sources;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonEndTest {
  @ParameterizedTest
  @ValueSource(strings = {
      "{}", " {\"a\": 1} \r\n\t", "{\"a\": {\"b\": [1, {}]}, \"c\": \"}{\"}", "{\"a\": \"\\\"}{\"}", "{'a': '}{\"'}",
      "{\"a\\\\\": 1}", "", "1", "{\"a\": 1", "{\"a\": \"", "{\"a\": \"\\", "[1, 2]", "{\"a\": \"é}\"}",
      "{}\u0000", "{}\uFEFF", "{}\f;", "{\"a\": 1},", "{\"a\": 1}}"})
  void oneObject(String text) {
    assertEquals(0, new JsonEnd().more(bytes(text)), text);
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "{}{}", "{\"a\": 1}\n{\"a\": 2}", "{}, {}", "{}[1]", "{} 5", "{}\"a\"", "{\"a\": \"\\\\\"} x", "{'a': '\"'}{}", "{} // x",
      "}{"})
  void moreThanOne(String text) {
    assertNotEquals(0, new JsonEnd().more(bytes(text)), text);
  }

  @Test
  void place() {
    assertEquals(7, new JsonEnd().more(bytes("{\"é\"}\n{}")));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
