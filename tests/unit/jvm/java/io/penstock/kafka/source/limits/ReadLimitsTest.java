package io.penstock.kafka.source.limits;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.junit.jupiter.api.Test;

class ReadLimitsTest {
  private static final OptionalLong NONE = OptionalLong.empty();

  @Test
  void limitsAreTakenApartAndPutTogether() {
    ReadLimit rows = ReadLimit.maxRows(50);
    ReadLimit least = ReadLimit.minRows(5, 100);
    ReadLimit all = ReadLimits.with(ReadLimit.compositeLimit(new ReadLimit[] {least, rows}), OptionalLong.of(900));
    assertEquals(new ReadLimits(OptionalLong.of(50), OptionalLong.of(900), least), ReadLimits.of(all));
    assertEquals(new ReadLimits(NONE, OptionalLong.of(7), ReadLimit.allAvailable()),
        ReadLimits.of(ReadLimits.with(ReadLimit.allAvailable(), OptionalLong.of(7))));
    assertEquals(rows, ReadLimits.with(rows, NONE));
    assertEquals(NONE, ReadLimits.of(ReadLimit.allAvailable()).maxRows());
  }
}
