package io.penstock.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.source.broker.Sample;
import io.penstock.kafka.source.plan.BalanceMode;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SourceOptionsTest {
  @Test
  void withoutOptionsOnlyBalanceIsOn() {
    SourceOptions options = parse("");
    assertEquals(BalanceMode.AUTO, options.balance());
    assertEquals(OptionalLong.empty(), options.maxBytes());
    assertEquals(0, options.skewEveryBatches());
    assertTrue(options.stopAt().isEmpty() && options.followOffsetLog().isEmpty());
    assertEquals(OptionalLong.empty(), options.idleTimeoutMillis());
    assertEquals(10_000, options.toleranceMillis());
  }

  @ParameterizedTest
  @CsvSource({
    "balance=auto;balanceField=/at, FIELD",
    "balanceField=/at, FIELD",
    "BALANCE=Sample, SAMPLE",
    "balance=off;balanceField=/at, OFF",
    "balance=field;balanceField=/a/b, FIELD",
  })
  void balanceIsWhatFieldAndWordMakeIt(String text, BalanceMode expected) {
    assertEquals(expected, parse(text).balance());
  }

  @ParameterizedTest
  @CsvSource({"30000, 3000", "600000, 10000"})
  void toleranceIsASmallPartOfTheDelay(long delay, long expected) {
    assertEquals(expected, parse("skewWarningMillis=" + delay).toleranceMillis());
  }

  @ParameterizedTest
  @CsvSource({
    "balance=best, option balance: must be one of",
    "balance=field, option balanceField: is required",
    "balance=index;balanceField=/at, option balanceField: balance=index goes by record timestamps",
    "balanceField=at, option balanceField: must be a JSON pointer",
    "balanceField=/at;balanceFieldUnit=days, option balanceFieldUnit: must be seconds or millis",
    "balanceField=/at;balanceFieldFormat=yyyy-bb, option balanceFieldFormat: 'yyyy-bb' is no datetime pattern",
    "maxBytesPerTrigger=0, option maxBytesPerTrigger: must be a whole number from 1 on",
    "maxBytesPerTrigger=many, option maxBytesPerTrigger: must be a whole number from 1 on",
    "skewEveryBatches=-1, option skewEveryBatches: must be a whole number from 0 on",
    "idleTimeoutMillis=-5, option idleTimeoutMillis: must be a whole number from 0 on",
    "stopAtOffsets=latest, option stopAtOffsets: must be offsets such as",
    "followOffsetLog=/x;maxBytesPerTrigger=7, option maxBytesPerTrigger: does not go with followOffsetLog",
    "followOffsetLog=/x;stopAtOffsets={}, option stopAtOffsets: does not go with followOffsetLog",
  })
  void aBadOptionIsNamedWithItsRule(String text, String words) {
    IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> parse(text));
    assertTrue(error.getMessage().startsWith(words), error.getMessage());
  }

  @Test
  void negativeStopsAreRefused() {
    Map<String, String> options = Map.of("stopAtOffsets", "{\"t\":{\"0\":-1}}");
    assertThrows(
        IllegalArgumentException.class,
        () -> SourceOptions.of(new CaseInsensitiveStringMap(options), ZoneOffset.UTC));
  }

  private static SourceOptions parse(String text) {
    Map<String, String> options = new HashMap<>();
    for (String entry : text == null || text.isEmpty() ? new String[0] : text.split(";")) {
      options.put(entry.split("=", 2)[0], entry.split("=", 2)[1]);
    }
    return SourceOptions.of(new CaseInsensitiveStringMap(options), ZoneOffset.UTC);
  }
}
