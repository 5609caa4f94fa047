package io.penstock.sources;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LongNumbersTest {
  private static final Pattern SAME = Pattern.compile("[:,\\[]\\s*-?[0-9]{13}");
  private static final String[] PARTS = {
    ":", ",", "[", " ", "\t", "\u000B", "\n", "-", "\"", "é", "a", ".", "1", "12", "123456", "1234567", "999999999999",
    "1234567890123", "000000000000000000000000000"
  };

  @ParameterizedTest
  @ValueSource(strings = {
      "{\"at\":1767225600000}", "{\"at\": -1767225600000 }", "[1767225600000]", "a,1767225600000", ":\n\t1767225600000",
      "{\"é\": \"a\", \"at\": 17672256000000000000000000}"})
  void found(String text) {
    assertTrue(isIn(text), text);
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "", "1767225600000", "{\"at\":\"1767225600000\"}", "{\"at\":176722560000}", "{\"at\":1.7672256000000}",
      ": - 1767225600000", ":--1767225600000", "\"1767225600000:"})
  void notFound(String text) {
    assertEquals(false, isIn(text), text);
  }

  @Test
  void sameAsTheRegularExpression() {
    Random random = new Random(1);
    int found = 0;
    for (int round = 0; round < 20_000; round++) {
      StringBuilder text = new StringBuilder();
      for (int part = random.nextInt(12); part > 0; part--) {
        text.append(PARTS[random.nextInt(PARTS.length)]);
      }
      boolean expected = SAME.matcher(text).find();
      assertEquals(expected, isIn(text.toString()), text.toString());
      found += expected ? 1 : 0;
    }
    assertTrue(found > 1_000 && found < 19_000, "both answers, often: " + found);
  }

  private static boolean isIn(String text) {
    return new LongNumbers().isIn(text.getBytes(StandardCharsets.UTF_8));
  }
}
