package io.penstock.kafka.sink;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The producers of Spark partitions on this executor, kept between batches: opening one costs more than a small batch.
 * Each has one owner at a time. A second attempt of a partition finds none here, opens its own, and so fences the
 * first.
 */
final class PartitionProducers {
  private static final Map<Key, PartitionProducer> IDLE = new ConcurrentHashMap<>();

  private PartitionProducers() {}

  // Of one run of the query: after it ended, another process may have opened newer producers.
  private record Key(String runId, String prefix, int partition) {}

  /** The producer of a partition, with the marker that was in Kafka after it was opened or last committed. */
  static PartitionProducer take(SinkOptions options, PlannedBatch batch, int partition) {
    SinkKeeper.start();
    PartitionProducer idle = IDLE.remove(new Key(batch.runId(), options.prefix(), partition));
    if (idle == null) {
      return open(options, batch, partition);
    }
    if (wroteTheBatchBefore(idle, batch)) {
      return idle;
    }
    idle.producer.close();
    return open(options, batch, partition);
  }

  /** Otherwise another executor did, for every partition commits in every batch: this producer is fenced. */
  private static boolean wroteTheBatchBefore(PartitionProducer idle, PlannedBatch batch) {
    return idle.marker().filter(marker -> marker.batchId() == batch.batchId() - 1).isPresent();
  }

  static void giveBack(PartitionProducer producer, PlannedBatch batch) {
    producer.idleSinceNanos = System.nanoTime();
    Key key = new Key(batch.runId(), producer.options.prefix(), producer.partition);
    PartitionProducer other = IDLE.put(key, producer);
    if (other != null) {
      other.producer.close();
    }
  }

  static void closeAll(String runId) {
    IDLE.keySet().stream().filter(key -> key.runId().equals(runId)).forEach(PartitionProducers::close);
  }

  static void closeIdle(long nowNanos) {
    IDLE.forEach((key, idle) -> {
      if (nowNanos - idle.idleSinceNanos > idle.options.producerIdle().toNanos()) {
        close(key);
      }
    });
  }

  static int idleCount() {
    return IDLE.size();
  }

  private static void close(Key key) {
    PartitionProducer idle = IDLE.remove(key);
    if (idle != null) {
      idle.producer.close();
    }
  }

  private static PartitionProducer open(SinkOptions options, PlannedBatch batch, int partition) {
    FencedProducer opened = FencedProducer.open(options, SeriesNames.ofPartition(options.prefix(), partition));
    try {
      // Read after opening: no older producer can commit any more.
      Optional<Marker> marker =
          SharedAdmins.with(options, admin -> admin.partitionMarker(batch.queryId(), partition));
      return new PartitionProducer(options, partition, opened, marker);
    } catch (RuntimeException error) {
      opened.close();
      throw error;
    }
  }
}
