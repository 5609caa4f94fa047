package io.penstock.kafka.sink.clients;

import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.PlannedBatch;
import io.penstock.kafka.sink.series.SeriesNames;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongConsumer;

/**
 * The producers of Spark partitions on this executor. They are kept between batches, since opening one costs more than
 * a small batch. Each has one owner at a time: a second attempt of a partition opens its own and so fences the first.
 */
public final class PartitionProducers {
  private static final Map<Key, PartitionProducer> IDLE = new ConcurrentHashMap<>();
  private static final LongConsumer CLOSE_IDLE = PartitionProducers::closeIdle;

  private PartitionProducers() {}

  // The run id is part of the key: after a run has ended, another process may have opened newer producers.
  private record Key(String runId, String prefix, int partition) {}

  /** The producer of a partition, with the marker that Kafka had when it was opened or last committed. */
  public static PartitionProducer take(SinkOptions options, PlannedBatch batch, int partition) {
    ClientHousekeeper.add(CLOSE_IDLE);
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

  /** Every partition commits in every batch. If this producer did not, another executor did and fenced it. */
  private static boolean wroteTheBatchBefore(PartitionProducer idle, PlannedBatch batch) {
    return idle.marker().filter(marker -> marker.batchId() == batch.batchId() - 1).isPresent();
  }

  public static void giveBack(PartitionProducer producer, PlannedBatch batch) {
    producer.idleSinceNanos = System.nanoTime();
    Key key = new Key(batch.runId(), producer.options.prefix(), producer.partition);
    PartitionProducer other = IDLE.put(key, producer);
    if (other != null) {
      other.producer.close();
    }
  }

  public static void closeAll(String runId) {
    IDLE.keySet().stream().filter(key -> key.runId().equals(runId)).forEach(PartitionProducers::close);
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
      idle.producer.close();
    }
  }

  private static PartitionProducer open(SinkOptions options, PlannedBatch batch, int partition) {
    FencedProducer opened = FencedProducer.open(options, SeriesNames.ofPartition(options.prefix(), partition));
    try {
      // The marker is read after opening: no older producer can commit any more.
      Optional<Marker> marker =
          SharedAdmins.with(options, admin -> admin.partitionMarker(batch.queryId(), partition));
      return new PartitionProducer(options, partition, opened, marker);
    } catch (RuntimeException error) {
      opened.close();
      throw error;
    }
  }
}
