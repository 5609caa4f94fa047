package io.penstock.kafka.source.broker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads samples of all partitions at once with a consumer of its own. Not safe for use by several threads. */
public final class SampleReader implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final long TIMEOUT_MILLIS = 60_000;

  private final KafkaConsumer<byte[], byte[]> consumer;
  private final EventTimes times;

  /** Takes the settings of Spark's own consumers, which include security and isolation level. */
  public SampleReader(Map<String, Object> sparkParams, EventTimes times) {
    Map<String, Object> params = new HashMap<>(sparkParams);
    params.remove(ConsumerConfig.GROUP_ID_CONFIG);
    params.remove(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG);
    params.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    params.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    params.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 10_000);
    params.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, 16 * 1024);
    params.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 10);
    params.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    params.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    this.consumer = new KafkaConsumer<>(params);
    this.times = times;
  }

  /** Samples from these offsets on, before the ends of the ranges. A partition without a record there is absent. */
  Map<TopicPartition, Sample> read(Map<TopicPartition, Long> offsets, Map<TopicPartition, OffsetRange> ranges) {
    consumer.assign(offsets.keySet());
    consumer.resume(offsets.keySet());
    offsets.forEach((partition, offset) -> consumer.seek(partition, Math.max(0, offset - Sample.LEAD)));
    Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> records = new HashMap<>();
    offsets.keySet().forEach(partition -> records.put(partition, new ArrayList<>()));
    long deadline = System.nanoTime() + TIMEOUT_MILLIS * 1_000_000;
    while (!open().isEmpty()) {
      if (System.nanoTime() > deadline) {
        throw new TimeoutException("no records of " + open() + " within " + TIMEOUT_MILLIS + " ms");
      }
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
        records.get(new TopicPartition(record.topic(), record.partition())).add(record);
      }
      records.forEach((partition, polled) -> polled.removeIf(record -> record.offset() >= ranges.get(partition).end()));
      consumer.pause(open().stream()
          .filter(partition -> isRead(partition, offsets.get(partition), ranges.get(partition), records.get(partition)))
          .toList());
    }
    Map<TopicPartition, Sample> samples = new HashMap<>();
    records.forEach(
        (partition, list) -> {
          if (!list.isEmpty() && list.get(list.size() - 1).offset() >= offsets.get(partition)) {
            samples.put(partition, sampleOf(offsets.get(partition), list));
          }
        });
    return samples;
  }

  @Override
  public void close() {
    consumer.close(Duration.ZERO);
  }

  /** The partitions whose samples are not finished. */
  private Set<TopicPartition> open() {
    Set<TopicPartition> open = new HashSet<>(consumer.assignment());
    open.removeAll(consumer.paused());
    return open;
  }

  /** A partition is finished when its sample is long enough, or when only transaction markers remain before its end. */
  private boolean isRead(
      TopicPartition partition, long asked, OffsetRange range, List<ConsumerRecord<byte[], byte[]>> polled) {
    long length = polled.stream().filter(record -> record.offset() >= asked).count();
    return length >= Sample.RECORDS || consumer.position(partition) >= range.end();
  }

  private Sample sampleOf(long asked, List<ConsumerRecord<byte[], byte[]>> polled) {
    long before = polled.stream().filter(record -> record.offset() < asked).count();
    boolean followed = polled.size() - before >= Sample.RECORDS;
    List<ConsumerRecord<byte[], byte[]>> records =
        polled.subList(0, (int) Math.min(polled.size(), before + Sample.RECORDS));
    double bytes = records.stream()
        .mapToInt(record -> Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize()))
        .average().orElse(0);
    List<Sample.Point> timed = records.stream()
        .flatMap(record -> times.of(record).stream().mapToObj(millis -> new Sample.Point(record.offset(), millis)))
        .toList();
    return Sample.of(asked, timed, followed, bytes);
  }
}
