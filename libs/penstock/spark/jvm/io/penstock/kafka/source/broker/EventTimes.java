package io.penstock.kafka.source.broker;

import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The event time of a record in milliseconds since 1970. Empty when the record has none. */
@FunctionalInterface
public interface EventTimes {
  /** Kafka's own timestamp of the record. */
  EventTimes OF_RECORD = record -> OptionalLong.of(record.timestamp());

  OptionalLong of(ConsumerRecord<byte[], byte[]> record);
}
