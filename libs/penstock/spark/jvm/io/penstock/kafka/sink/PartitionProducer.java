package io.penstock.kafka.sink;

import java.util.Map;
import java.util.Optional;

/** The open producer of one Spark partition and the marker that its group has in Kafka. */
final class PartitionProducer {
  final SinkOptions options;
  final int partition;
  final FencedProducer producer;
  volatile long idleSinceNanos;
  private Optional<Marker> marker;

  PartitionProducer(SinkOptions options, int partition, FencedProducer producer, Optional<Marker> marker) {
    this.options = options;
    this.partition = partition;
    this.producer = producer;
    this.marker = marker;
  }

  Optional<Marker> marker() {
    return marker;
  }

  void commit(PlannedBatch batch) {
    producer.commit(Map.of(SeriesNames.ofPartition(options.prefix(), partition), batch.marker()));
    marker = Optional.of(batch.marker());
  }
}
