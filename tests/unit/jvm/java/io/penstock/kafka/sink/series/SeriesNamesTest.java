package io.penstock.kafka.sink.series;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SeriesNamesTest {
  @ParameterizedTest
  @CsvSource({
    "penstock-jobs/1/2,true", "penstock-jobs/1/2#0,true", "penstock-jobs/1/2#17,true",
    "penstock-jobs/1/20,false", "penstock-jobs/1/20#1,false", "penstock-jobs/1/2#,false", "penstock-jobs/1/2#x,false",
    "a-penstock-jobs/1/2,false"})
  void aSeriesHasItsOwnNamesOnly(String transactionalId, boolean expected) {
    assertEquals(expected, SeriesNames.belongs(transactionalId, "penstock-jobs/1/2"));
  }

  @Test
  void pointsAndOtherSignsOfAPrefixMeanThemselves() {
    assertEquals(false, SeriesNames.belongs("axb", "a.b"));
    assertEquals(true, SeriesNames.belongs("a.b#3", "a.b"));
    assertEquals("a.b#3", SeriesNames.ofPartition("a.b", 3));
  }
}
