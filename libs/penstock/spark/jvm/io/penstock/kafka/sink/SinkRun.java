package io.penstock.kafka.sink;

import io.penstock.kafka.sink.ReplayCheck.Decision;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The driver's side of one run of a query: its producer, which lives as long as the run, and the present batch. */
final class SinkRun {
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
    driver = SeriesNames.ofDriver(options.prefix());
  }

  /** Begins a batch. The markers are read at the first one of a run: no later one can be in Kafka already. */
  synchronized Decision start(PlannedBatch batch) {
    writing = true;
    if (failure != null) {
      throw failure;
    }
    Decision decision = producer == null ? open(batch) : Decision.WRITE;
    if (decision == Decision.SKIP) {
      LOG.info("batch {} of {} is in kafka already", batch.batchId(), driver);
      return decision;
    }
    announce(batch.partitions());
    transaction = new BatchTransaction(producer);
    return decision;
  }

  BatchTransaction transaction() {
    return transaction;
  }

  /** Commits a batch of one transaction, whose rows are those of {@code attempts}. */
  synchronized void commit(PlannedBatch batch, Set<Long> attempts) {
    Marker marker = batch.marker().withPartitions(driverMarker.partitions());
    if (transaction.commit(Map.of(driver, marker), attempts)) {
      driverMarker = marker;
      committed(Map.of(driver, marker));
    }
    writing = false;
  }

  /** All partitions of a batch with a transaction each have committed. */
  synchronized void partitionsCommitted(PlannedBatch batch) {
    Map<String, Marker> markers = new HashMap<>();
    for (int partition = 0; partition < batch.partitions(); partition++) {
      markers.put(SeriesNames.ofPartition(options.prefix(), partition), batch.marker());
    }
    markers.put(driver, driverMarker);
    committed(markers);
    writing = false;
  }

  /** The batch was in Kafka already, and nothing was written. */
  synchronized void skipped() {
    writing = false;
  }

  /** Ends the run's writing: what is open is aborted. Safe to repeat. */
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
   * Commits the markers anew when no batch came for long, lest the brokers forget them (offsets.retention.minutes).
   * A failure is kept for the next batch: opening another producer would drive a newer owner out.
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
      LOG.info("markers of {} committed anew", driver);
    } catch (RuntimeException error) {
      LOG.warn("the markers of {} could not be committed anew", driver, error);
      failure = error;
    }
  }

  private Decision open(PlannedBatch batch) {
    return SharedAdmins.with(options, admin -> {
      admin.requireTopic();
      producer = FencedProducer.open(options, driver);
      driverMarker = admin.driverMarker(batch.queryId()).orElse(Marker.none(batch.queryId()));
      // Ended before their markers are read: none of them can commit afterwards, or hold up the reading.
      admin.fencePartitions(driverMarker.partitions());
      return ReplayCheck.ofBatch(
          batch, driverMarker, admin.partitionMarkers(batch.queryId(), driverMarker.partitions()));
    });
  }

  /** Says in Kafka how many markers to look for, before the first of a larger number can be written. */
  private void announce(int partitions) {
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
