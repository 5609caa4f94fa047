package io.penstock.kafka.source.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.core.JsonPointer;
import java.nio.charset.StandardCharsets;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Event times of values, and of places in a run of records. */
class EventTimesTest {
  private static final long NOON = 1_704_110_400_000L;

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "\"2024-01-01T12:00:00Z\" | 0",
        "\"2024-01-01T12:00:00.250\" | 250",
        "\"2024-01-01 12:00:00\" | 0",
        "\"2024-01-01T14:00:00+02:00\" | 0",
        "\"2024-01-01\" | -43200000",
        "1704110400 | 0",
        "1704110400.5 | 500",
      })
  void timestampsAreReadAsSparkReadsThem(String value, long afterNoon) {
    assertEquals(OptionalLong.of(NOON + afterNoon), at("/a", 1000, "{\"a\":" + value + "}"));
    assertEquals(OptionalLong.of(NOON + afterNoon), at("/b/c~1d", 1000, "{\"b\":{\"c/d\":" + value + "}}"));
  }

  @Test
  void numbersMayBeMillisecondsAndTextsOfAnotherZone() {
    assertEquals(OptionalLong.of(NOON), at("/a", 1, "{\"a\":" + NOON + "}"));
    FieldTimes times = new FieldTimes.AsTimestamp(1000, ZoneId.of("Europe/Berlin"));
    EventTimes.OfField berlin = new EventTimes.OfField(JsonPointer.valueOf("/a"), times);
    assertEquals(OptionalLong.of(NOON), berlin.of(bytes("{\"a\":\"2024-01-01 13:00:00\"}")));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"{\"b\":1}", "{\"a\":null}", "{\"a\":true}", "{\"a\":\"soon\"}", "{\"a\":{}}", "no json", "", "[]"})
  void whatIsNoTimeIsUnknown(String value) {
    assertEquals(OptionalLong.empty(), at("/a", 1000, value));
  }

  @ParameterizedTest
  @CsvSource({
    "epoch_seconds, 1704110400",
    "epoch_millis, 1704110400000",
    "dd/MM/yyyy HH:mm, \"01/01/2024 12:00\"",
    "yyyyMMddHHmm, 202401011200",
  })
  void anEventTimeMayHaveAFormat(String format, String value) {
    FieldTimes times = FieldTimes.of(format, ZoneOffset.UTC);
    assertEquals(OptionalLong.of(NOON), at("/a", times, "{\"a\":" + value + "}"));
  }

  @ParameterizedTest
  @CsvSource({
    "epoch_seconds, 1704110400000",
    "epoch_seconds, 1.5",
    "epoch_millis, \"1704110400000\"",
    "epoch_millis, \"2024-01-01\"",
    "epoch_millis, 9223372036854775807",
    "epoch_millis, 92233720368547758070",
    "yyyy-MM-dd, \"01/01/2024\"",
    "yyyy-MM-dd, \"2024-01-01 12:00\"",
    "yyyy-MM-dd, null",
  })
  void whatIsNotOfTheFormatIsUnknown(String format, String value) {
    assertEquals(OptionalLong.empty(), at("/a", FieldTimes.of(format, ZoneOffset.UTC), "{\"a\":" + value + "}"));
  }

  @Test
  void placesOfARunHaveTheTimesOfTheirRecords() {
    Sample run = run(100, false, 1, 2, 3, 4, 5, 6);
    assertEquals(List.of(1L, 2L, 3L, 4L, 5L, 6L), run.points().stream().map(Sample.Point::millis).toList());
    assertEquals(OptionalLong.of(1), run.firstMillis());
    assertEquals(OptionalLong.of(6), run.lastMillis());
  }

  @ParameterizedTest
  @ValueSource(longs = {0, 9_999})
  void aBogusRecordDoesNotCount(long bogus) {
    for (int place = 2; place < 6; place++) {
      long[] times = {10, 11, 12, 13, 14, 15, 16, 17};
      times[place] = bogus;
      for (Sample.Point told : run(100, true, times).points()) {
        assertEquals(10 + told.offset() - 100, told.millis(), 2, "bogus at " + place);
      }
    }
  }

  @Test
  void placesBeforeTheOneAskedForAreOnlyNeighbours() {
    Sample run = Sample.of(102, points(100, 1, 2, 99, 3), false, 0);
    assertEquals(List.of(new Sample.Point(102, 3), new Sample.Point(103, 3)), run.points());
  }

  @Test
  void aSampleMayHaveGapsOrNoTimesAtAll() {
    List<Sample.Point> points = List.of(new Sample.Point(0, 4), new Sample.Point(2, 5));
    assertEquals(points, Sample.of(0, points, false, 0).points());
    assertEquals(OptionalLong.empty(), Sample.of(0, List.of(), false, 0).firstMillis());
  }

  private static Sample run(long first, boolean followed, long... millis) {
    return Sample.of(first, points(first, millis), followed, 0);
  }

  private static List<Sample.Point> points(long first, long... millis) {
    List<Sample.Point> points = new ArrayList<>();
    for (long time : millis) {
      points.add(new Sample.Point(first + points.size(), time));
    }
    return points;
  }

  private static OptionalLong at(String pointer, long unit, String value) {
    return at(pointer, new FieldTimes.AsTimestamp(unit, ZoneOffset.UTC), value);
  }

  private static OptionalLong at(String pointer, FieldTimes times, String value) {
    return new EventTimes.OfField(JsonPointer.valueOf(pointer), times).of(bytes(value));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
