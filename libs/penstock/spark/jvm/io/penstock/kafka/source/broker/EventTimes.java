package io.penstock.kafka.source.broker;

import com.fasterxml.jackson.core.JsonPointer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.ZoneId;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** The event time of a record in milliseconds since 1970. Empty when the record has none. */
@FunctionalInterface
public interface EventTimes {
  /** Kafka's own timestamp of the record. */
  EventTimes OF_RECORD = record -> OptionalLong.of(record.timestamp());

  OptionalLong of(ConsumerRecord<byte[], byte[]> record);

  /**
   * The event time in a field of a JSON value: a text that {@code from_json} reads as TIMESTAMP, or a number.
   *
   * @param zone applies to texts without a time zone. Pass the session's, which {@code from_json} uses too
   */
  record OfField(JsonPointer field, long millisPerUnit, ZoneId zone) implements EventTimes {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long MICROS_PER_MILLI = 1000;

    @Override
    public OptionalLong of(ConsumerRecord<byte[], byte[]> record) {
      return record.value() == null ? OptionalLong.empty() : of(record.value());
    }

    OptionalLong of(byte[] value) {
      JsonNode node;
      try {
        node = JSON.readTree(value);
      } catch (IOException notJson) {
        // from_json makes such a value a row of nulls, which has no event time either.
        return OptionalLong.empty();
      }
      return node == null ? OptionalLong.empty() : millisOf(node.at(field));
    }

    private OptionalLong millisOf(JsonNode node) {
      if (node.isIntegralNumber() && node.canConvertToLong()) {
        return OptionalLong.of(node.asLong() * millisPerUnit);
      }
      if (node.isNumber()) {
        return OptionalLong.of((long) (node.asDouble() * millisPerUnit));
      }
      if (!node.isTextual()) {
        return OptionalLong.empty();
      }
      Option<Object> micros = DateTimeUtils.stringToTimestamp(UTF8String.fromString(node.asText()), zone);
      return micros.isEmpty()
          ? OptionalLong.empty()
          : OptionalLong.of(Math.floorDiv((Long) micros.get(), MICROS_PER_MILLI));
    }
  }
}
