package io.penstock.kafka.source;

import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** When a record happened, in milliseconds since 1970; empty when it does not say. */
@FunctionalInterface
interface EventTimes {
  /** The timestamp that the record carries beside its value. */
  EventTimes OF_RECORD = record -> OptionalLong.of(record.timestamp());

  OptionalLong of(ConsumerRecord<byte[], byte[]> record);
}
