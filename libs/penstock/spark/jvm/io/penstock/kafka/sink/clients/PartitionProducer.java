package io.penstock.kafka.sink.clients;

import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.PlannedBatch;
import io.penstock.kafka.sink.series.SeriesNames;
import java.util.Map;
import java.util.Optional;

/** The open producer of one Spark partition, and the marker that its consumer group has in Kafka. */
public final class PartitionProducer {
  final SinkOptions options;
  final int partition;
  public final FencedProducer producer;
  volatile long idleSinceNanos;
  private Optional<Marker> marker;

  PartitionProducer(SinkOptions options, int partition, FencedProducer producer, Optional<Marker> marker) {
    this.options = options;
    this.partition = partition;
    this.producer = producer;
    this.marker = marker;
  }

  public Optional<Marker> marker() {
    return marker;
  }

  public void commit(PlannedBatch batch) {
    producer.commit(Map.of(SeriesNames.ofPartition(options.prefix(), partition), batch.marker()));
    marker = Optional.of(batch.marker());
  }
}
