package io.penstock.kafka.source.broker;

import com.fasterxml.jackson.core.JsonPointer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The event time of a record in milliseconds since 1970. Empty when the record has none. */
@FunctionalInterface
public interface EventTimes {
  /** Kafka's own timestamp of the record. */
  EventTimes OF_RECORD = record -> OptionalLong.of(record.timestamp());

  OptionalLong of(ConsumerRecord<byte[], byte[]> record);

  /** The event time in a field of a JSON value. */
  record OfField(JsonPointer field, FieldTimes times) implements EventTimes {
    private static final ObjectMapper JSON = new ObjectMapper();

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
      return node == null ? OptionalLong.empty() : times.millisOf(node.at(field));
    }
  }
}
