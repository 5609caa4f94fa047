package io.penstock.kafka.sink.run;

import io.penstock.kafka.marks.Mark;
import io.penstock.kafka.sink.clients.FencedProducer;
import io.penstock.kafka.sink.clients.SeriesAdmin;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.kafka.sink.series.ReplayCheck.Decision;
import io.penstock.kafka.sink.series.ReplayCheck;
import io.penstock.kafka.sink.series.SeriesNames;
import io.penstock.spark42.RunningQuery;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's side of one series in a run of a query: the producer, which lives as long as the run, and the current batch.
 */
public final class SinkRun {
  private static final Logger LOG = LoggerFactory.getLogger(SinkRun.class);

  private final SinkOptions options;
  private final String driver;
  private FencedProducer producer;
  private Marker driverMarker;
  private volatile BatchTransaction transaction;
  private volatile boolean writing;
  private long lastBatchId = -1;
  private Map<String, Marker> newest = Map.of();
  private long committedNanos;
  private RuntimeException failure;
  private final RunMarks marks;

  SinkRun(SinkOptions options, RunningQuery query) {
    this.options = options;
    marks = new RunMarks(options, query);
    driver = options.prefix();
  }

  /**
   * Says nothing more until this batch is written. As soon as another sink of the query has it, the query's inputs count
   * it as read, and a mark of this series could be ahead of its rows.
   */
  synchronized void await(Marker batch) {
    writing |= lastBatchId < batch.batchId();
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
    marks.batchEnded();
    if (transaction.commit(Map.of(driver, marker), attempts, marks::ofBatch)) {
      driverMarker = marker;
      committed(Map.of(driver, marker));
      marks.ofBatch(Map.of()).ifPresent(marks::written);
    } else if (marks.isFirst()) {
      marks.ofBatch(Map.of()).ifPresent(this::write);
    }
    ended(batch);
  }

  /** Records that all partitions have committed their transactions of a batch, with these ends of the rows. */
  public synchronized void partitionsCommitted(Marker batch, Map<Integer, Long> ends) {
    marks.batchEnded();
    marks.ofBatch(ends).ifPresent(this::write);
    Map<String, Marker> markers = new HashMap<>();
    SeriesNames.ofPartitions(options.prefix(), batch.partitions()).forEach(group -> markers.put(group, batch));
    markers.put(driver, driverMarker);
    committed(markers);
    ended(batch);
  }

  /** Ends a batch that was in Kafka already and was not written. */
  public synchronized void skipped(Marker batch) {
    marks.batchEnded();
    ended(batch);
  }

  private void ended(Marker batch) {
    lastBatchId = batch.batchId();
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
   * Writes the marks of an idle query, and commits the markers again when it was idle for long, so that the brokers keep
   * them (offsets.retention.minutes). An error is thrown by the next batch: opening another producer here could fence a
   * newer run of the query.
   */
  void refresh(long nowNanos) {
    if (!writing) {
      refreshIdle(nowNanos);
    }
  }

  private synchronized void refreshIdle(long nowNanos) {
    if (producer == null || writing || failure != null) {
      return;
    }
    try {
      marks.whileIdle(nowNanos).ifPresent(this::write);
      if (!newest.isEmpty() && nowNanos - committedNanos >= options.markerRefresh().toNanos()) {
        producer.begin();
        producer.commit(newest);
        committedNanos = nowNanos;
        LOG.info("markers of {} committed again", driver);
      }
    } catch (RuntimeException error) {
      LOG.warn("the marks or markers of {} could not be committed while it is idle", driver, error);
      failure = error;
    }
  }

  /** Writes a mark by itself, after the rows that it speaks of. */
  private void write(Mark mark) {
    producer.begin();
    producer.commit(Map.of(), rows -> Optional.of(mark));
    marks.written(mark);
  }

  private Decision open(Marker batch) {
    SeriesAdmin admin = new SeriesAdmin(options);
    admin.requireTopics();
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
