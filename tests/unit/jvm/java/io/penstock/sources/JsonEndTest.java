package io.penstock.sources;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonEndTest {
  @ParameterizedTest
  @ValueSource(strings = {
      "{}", " {\"a\": 1} \r\n\t", "{\"a\": {\"b\": [1, {}]}, \"c\": \"}{\"}", "{\"a\": \"\\\"}{\"}", "{'a': '}{\"'}",
      "{\"a\\\\\": 1}", "", "1", "{\"a\": 1", "{\"a\": \"", "{\"a\": \"\\", "[1, 2]", "{\"a\": \"é}\"}"})
  void oneObject(String text) {
    assertEquals(false, JsonEnd.hasMore(bytes(text)), text);
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "{}{}", "{\"a\": 1}\n{\"a\": 2}", "{\"a\": 1},", "{\"a\": 1}}", "{\"a\": \"\\\\\"} x", "{'a': '\"'}{}", "{} // x",
      "}{"})
  void moreThanOne(String text) {
    assertEquals(true, JsonEnd.hasMore(bytes(text)), text);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
