package io.penstock.kafka.sink.write;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RecordColumnsTest {
  private static final RecordColumns ALL = RecordColumns.of(StructType.fromDDL(
      "partition int, other long, value string, key binary, headers array<struct<key:string,value:binary>>"));

  @Test
  void aRowIsARecord() {
    ProducerRecord<byte[], byte[]> record = ALL.record("t", row(3, "v", "k", header("a", "1"), header("b", null)));
    assertEquals(3, record.partition());
    assertArrayEquals("k".getBytes(UTF_8), record.key());
    assertArrayEquals("v".getBytes(UTF_8), record.value());
    Header[] headers = record.headers().toArray();
    assertEquals("a", headers[0].key());
    assertArrayEquals("1".getBytes(UTF_8), headers[0].value());
    assertNull(headers[1].value());
  }

  @Test
  void nullsAndMissingColumnsAreNothing() {
    InternalRow nulls = new GenericInternalRow(new Object[5]);
    assertEquals(new ProducerRecord<>("t", null, null), ALL.record("t", nulls));
    InternalRow alone = new GenericInternalRow(new Object[] {"v".getBytes(UTF_8)});
    ProducerRecord<byte[], byte[]> record = RecordColumns.of(StructType.fromDDL("value binary")).record("t", alone);
    assertArrayEquals("v".getBytes(UTF_8), record.value());
    assertNull(record.key());
  }

  @Test
  void aHeaderNeedsItsKey() {
    assertRefused("the key of a header must not be null", row(0, "v", "k", header(null, "1")));
    assertRefused("a header must not be null", row(0, "v", "k", (InternalRow) null));
    assertRefused("column partition: must not be negative", row(-1, "v", "k"));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "Value string|column value: is required; the query has [Value]",
    "value long|column value: must be string or binary, not bigint",
    "value string, key int|column key: must be string or binary, not int",
    "value string, partition long|column partition: must be int, not bigint",
    "value string, headers map<string,binary>|column headers: must be array<struct<key:string,value:binary>>",
    "value string, headers array<struct<key:string,value:string>>|column headers: must be array"})
  void columnsThatDoNotFitAreNamed(String schema, String message) {
    StructType columns = StructType.fromDDL(schema);
    BrokenSinkException error = assertThrows(BrokenSinkException.class, () -> RecordColumns.of(columns));
    assertTrue(error.getMessage().startsWith(message), error.getMessage());
  }

  private static void assertRefused(String words, InternalRow row) {
    BrokenSinkException error = assertThrows(BrokenSinkException.class, () -> ALL.record("t", row));
    assertTrue(error.getMessage().contains(words), error.getMessage());
  }

  private static InternalRow row(int partition, String value, String key, InternalRow... headers) {
    return new GenericInternalRow(new Object[] {
        partition, 7L, UTF8String.fromString(value), key.getBytes(UTF_8), new GenericArrayData(headers)});
  }

  private static InternalRow header(String key, String value) {
    byte[] content = value == null ? null : value.getBytes(UTF_8);
    return new GenericInternalRow(new Object[] {key == null ? null : UTF8String.fromString(key), content});
  }
}
