package io.penstock.kafka.sink.clients;

import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.SeriesNames;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The open producer of one Spark partition on this executor, and the marker that its consumer group has in Kafka.
 *
 * <p>Producers are kept between batches, since opening one costs more than a small batch. Each has one owner at a time:
 * a second attempt of a partition opens its own and so fences the first.
 */
public final class PartitionProducer {
  private static final Map<Key, PartitionProducer> IDLE = new ConcurrentHashMap<>();

  static {
    ClientHousekeeper.everySecond(PartitionProducer::closeIdle);
  }

  public final FencedProducer kafka;
  private final Key key;
  private final SinkOptions options;
  private volatile long idleSinceNanos;
  private Optional<Marker> marker;

  // The run id is part of the key: after a run has ended, another process may have opened newer producers.
  private record Key(String runId, String prefix, int partition) {
    String id() {
      return SeriesNames.ofPartition(prefix, partition);
    }
  }

  private PartitionProducer(FencedProducer kafka, Key key, SinkOptions options, Optional<Marker> marker) {
    this.kafka = kafka;
    this.key = key;
    this.options = options;
    this.marker = marker;
  }

  /** The producer of a partition, with the marker that Kafka had when it was opened or last committed. */
  public static PartitionProducer take(SinkOptions options, String runId, Marker batch, int partition) {
    Key key = new Key(runId, options.prefix(), partition);
    PartitionProducer idle = IDLE.remove(key);
    if (idle != null && idle.wroteTheBatchBefore(batch)) {
      return idle;
    }
    if (idle != null) {
      idle.kafka.close();
    }
    return open(options, key, batch.queryId());
  }

  public void giveBack() {
    idleSinceNanos = System.nanoTime();
    PartitionProducer other = IDLE.put(key, this);
    if (other != null) {
      other.kafka.close();
    }
  }

  public Optional<Marker> marker() {
    return marker;
  }

  public void commit(Marker batch) {
    kafka.commit(Map.of(key.id(), batch));
    marker = Optional.of(batch);
  }

  public static void closeAll(String runId) {
    IDLE.keySet().stream().filter(key -> key.runId.equals(runId)).forEach(PartitionProducer::close);
  }

  private static void closeIdle(long nowNanos) {
    IDLE.forEach((key, idle) -> {
      if (nowNanos - idle.idleSinceNanos > idle.options.producerIdle().toNanos()) {
        close(key);
      }
    });
  }

  private static void close(Key key) {
    PartitionProducer idle = IDLE.remove(key);
    if (idle != null) {
      idle.kafka.close();
    }
  }

  /** Every partition commits in every batch. If this producer did not, another executor did and fenced it. */
  private boolean wroteTheBatchBefore(Marker batch) {
    return marker.filter(own -> own.batchId() == batch.batchId() - 1).isPresent();
  }

  private static PartitionProducer open(SinkOptions options, Key key, String queryId) {
    FencedProducer opened = FencedProducer.open(options, key.id());
    try {
      // The marker is read after opening: no older producer can commit any more.
      Optional<Marker> marker = new SeriesAdmin(options).markers(List.of(key.id()), queryId).stream().findFirst();
      return new PartitionProducer(opened, key, options, marker);
    } catch (RuntimeException error) {
      opened.close();
      throw error;
    }
  }
}
