package io.penstock.kafka.sink.run;

import io.penstock.kafka.sink.clients.FencedProducer;
import io.penstock.kafka.sink.clients.SeriesAdmin;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import io.penstock.kafka.sink.series.ReplayCheck;
import io.penstock.kafka.sink.series.SeriesNames;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The driver's side of one run of a query: the producer, which lives as long as the run, and the current batch. */
public final class SinkRun {
  private static final Logger LOG = LoggerFactory.getLogger(SinkRun.class);

  private final SinkOptions options;
  private final String driver;
  private FencedProducer producer;
  private Marker driverMarker;
  private volatile BatchTransaction transaction;
  private volatile boolean writing;
  private Map<String, Marker> newest = Map.of();
  private long committedNanos;
  private RuntimeException failure;

  SinkRun(SinkOptions options) {
    this.options = options;
    driver = options.prefix();
  }

  /** Begins a batch. Only the first batch of a run can be in Kafka already, so only then the markers are read. */
  public synchronized Decision start(Marker batch) {
    writing = true;
    if (failure != null) {
      throw failure;
    }
    Decision decision = producer == null ? open(batch) : Decision.WRITE;
    if (decision == Decision.SKIP) {
      LOG.info("batch {} of {} is in kafka already", batch.batchId(), driver);
      return decision;
    }
    storePartitionCount(batch.partitions());
    transaction = new BatchTransaction(producer);
    return decision;
  }

  public BatchTransaction transaction() {
    return transaction;
  }

  /** Commits the one transaction of a batch. {@code attempts} are the attempts that finished. */
  public synchronized void commit(Marker batch, Set<Long> attempts) {
    Marker marker = batch.withPartitions(driverMarker.partitions());
    if (transaction.commit(Map.of(driver, marker), attempts)) {
      driverMarker = marker;
      committed(Map.of(driver, marker));
    }
    writing = false;
  }

  /** Records that all partitions have committed their transactions of a batch. */
  public synchronized void partitionsCommitted(Marker batch) {
    Map<String, Marker> markers = new HashMap<>();
    SeriesNames.ofPartitions(options.prefix(), batch.partitions()).forEach(group -> markers.put(group, batch));
    markers.put(driver, driverMarker);
    committed(markers);
    writing = false;
  }

  /** Ends a batch that was in Kafka already and was not written. */
  public synchronized void skipped() {
    writing = false;
  }

  /** Ends the run and aborts an open transaction. May be called repeatedly. */
  synchronized void close() {
    if (transaction != null) {
      transaction.refuse();
    }
    if (producer != null) {
      producer.abort();
      failure = new RetryableSinkException("the run of " + driver + " has ended");
      producer = null;
    }
  }

  /**
   * Commits the markers again when the query was idle for long, so that the brokers keep them
   * (offsets.retention.minutes). An error is thrown by the next batch: opening another producer here could fence a
   * newer run of the query.
   */
  void refresh(long nowNanos) {
    if (!writing) {
      refreshIdle(nowNanos);
    }
  }

  private synchronized void refreshIdle(long nowNanos) {
    boolean due = nowNanos - committedNanos >= options.markerRefresh().toNanos();
    if (producer == null || writing || newest.isEmpty() || failure != null || !due) {
      return;
    }
    try {
      producer.begin();
      producer.commit(newest);
      committedNanos = nowNanos;
      LOG.info("markers of {} committed again", driver);
    } catch (RuntimeException error) {
      LOG.warn("the markers of {} could not be committed again", driver, error);
      failure = error;
    }
  }

  private Decision open(Marker batch) {
    SeriesAdmin admin = new SeriesAdmin(options);
    admin.requireTopic();
    producer = FencedProducer.open(options, driver);
    driverMarker = admin.markers(List.of(driver), batch.queryId()).stream().findFirst()
        .orElse(Marker.none(batch.queryId()));
    List<String> writers = SeriesNames.ofPartitions(options.prefix(), driverMarker.partitions());
    // Fence first, then read: fenced producers cannot commit any more, and no open transaction delays the reading.
    admin.fence(writers);
    return ReplayCheck.ofBatch(batch, driverMarker, admin.markers(writers, batch.queryId()));
  }

  /** Stores a larger number of partitions in the driver's marker before any of their markers can be written. */
  private void storePartitionCount(int partitions) {
    if (partitions > driverMarker.partitions()) {
      driverMarker = driverMarker.withPartitions(partitions);
      producer.begin();
      producer.commit(Map.of(driver, driverMarker));
    }
  }

  private void committed(Map<String, Marker> markers) {
    newest = markers;
    committedNanos = System.nanoTime();
  }
}
