package io.penstock.kafka.sink.write;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.function.Predicate;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;

/**
 * Converts rows to Kafka records. The columns are those of Spark's own Kafka sink; other columns are ignored.
 *
 * <p>Each number is the position of a column in the row, or -1 when the query has no such column. {@code textKey} and
 * {@code textValue} say that the column is a string, not binary.
 */
public record RecordColumns(int key, boolean textKey, int value, boolean textValue, int headers, int partition)
    implements Serializable {
  private static final int ABSENT = -1;
  private static final String HEADERS = "array<struct<key:string,value:binary>>";
  private static final int HEADER_FIELDS = 2;

  /** The columns of {@code schema}. Raises BrokenSinkException that names a missing column or one of a wrong type. */
  public static RecordColumns of(StructType schema) {
    int value = find(schema, "value", "string or binary", RecordColumns::isBytes);
    if (value == ABSENT) {
      throw new BrokenSinkException("column value: is required; the query has " + Arrays.toString(schema.fieldNames()));
    }
    int key = find(schema, "key", "string or binary", RecordColumns::isBytes);
    return new RecordColumns(
        key,
        key != ABSENT && schema.fields()[key].dataType() instanceof StringType,
        value,
        schema.fields()[value].dataType() instanceof StringType,
        find(schema, "headers", HEADERS, type -> type.sameType(DataType.fromDDL(HEADERS))),
        find(schema, "partition", "int", IntegerType.class::isInstance));
  }

  ProducerRecord<byte[], byte[]> record(String topic, InternalRow row) {
    Integer target = partition == ABSENT || row.isNullAt(partition) ? null : row.getInt(partition);
    if (target != null && target < 0) {
      throw new BrokenSinkException("column partition: must not be negative, but is " + target);
    }
    ProducerRecord<byte[], byte[]> record =
        new ProducerRecord<>(topic, target, bytes(row, key, textKey), bytes(row, value, textValue));
    if (headers != ABSENT && !row.isNullAt(headers)) {
      addHeaders(record, row.getArray(headers));
    }
    return record;
  }

  private static byte[] bytes(InternalRow row, int column, boolean text) {
    if (column == ABSENT || row.isNullAt(column)) {
      return null;
    }
    return text ? row.getUTF8String(column).getBytes() : row.getBinary(column);
  }

  private static void addHeaders(ProducerRecord<byte[], byte[]> record, ArrayData headers) {
    for (int index = 0; index < headers.numElements(); index++) {
      if (headers.isNullAt(index)) {
        throw new BrokenSinkException("column headers: a header must not be null");
      }
      InternalRow header = headers.getStruct(index, HEADER_FIELDS);
      if (header.isNullAt(0)) {
        throw new BrokenSinkException("column headers: the key of a header must not be null");
      }
      byte[] content = header.isNullAt(1) ? null : header.getBinary(1);
      record.headers().add(new RecordHeader(header.getString(0), content));
    }
  }

  private static int find(StructType schema, String name, String wanted, Predicate<DataType> fits) {
    int index = Arrays.asList(schema.fieldNames()).indexOf(name);
    if (index == ABSENT) {
      return ABSENT;
    }
    DataType type = schema.fields()[index].dataType();
    if (!fits.test(type)) {
      throw new BrokenSinkException("column " + name + ": must be " + wanted + ", not " + type.simpleString());
    }
    return index;
  }

  private static boolean isBytes(DataType type) {
    return type instanceof StringType || type instanceof BinaryType;
  }
}
