package io.penstock.spark42;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecutionContext;
import org.apache.spark.sql.execution.streaming.runtime.StreamProgress;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A running streaming query, seen from inside the driver. This class is the only place that uses the internals of
 * Spark 4.2's streaming runtime; they are public in byte code but no stable API. {@code RunningQueryInternalsTest}
 * lists every internal method used here and fails by name when Spark no longer has one.
 */
public final class RunningQuery {
  private final StreamExecution execution;

  private RunningQuery(StreamExecution execution) {
    this.execution = execution;
  }

  /** The query that owns the current thread. Empty when the thread is not that of a micro-batch query. */
  public static Optional<RunningQuery> ofThisThread() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty()) {
      return Optional.empty();
    }
    return idOfThisThread(session.get().sparkContext())
        .flatMap(id -> find(session.get(), id))
        .filter(query -> query.execution instanceof MicroBatchExecution);
  }

  /** The active query with this id in the session of the current thread. Empty when the query has ended. */
  public static Optional<RunningQuery> withId(String queryId) {
    return find(SparkSession.active(), queryId);
  }

  /** The id of the query that owns the current thread. */
  public static Optional<String> idOfThisThread(SparkContext context) {
    return Optional.ofNullable(context.getLocalProperty(StreamExecution.QUERY_ID_KEY()));
  }

  /** The id of the query that submitted a stage with these local properties, which may be null. */
  public static Optional<String> idOfStage(Properties properties) {
    return Optional.ofNullable(properties).map(all -> all.getProperty(StreamExecution.QUERY_ID_KEY()));
  }

  /** The stack of the thread that runs the query's batches; empty when the query is not a classic Spark query. */
  public static StackTraceElement[] stackOf(StreamingQuery query) {
    return query instanceof StreamingQueryWrapper wrapper
        ? wrapper.streamingQuery().queryExecutionThread().getStackTrace()
        : new StackTraceElement[0];
  }

  /** The Java thread that plans the batches of {@code query}. Empty when {@code query} is not a classic Spark query. */
  public static OptionalLong threadIdOf(StreamingQuery query) {
    return query instanceof StreamingQueryWrapper wrapper
        ? OptionalLong.of(wrapper.streamingQuery().queryExecutionThread().getId())
        : OptionalLong.empty();
  }

  /** Where an unfinished batch reads a source, and how far the source had come then: texts of offsets, null if unknown. */
  public record ReadRange(String start, String end, String latest) {}

  /** A batch that is planned or running. The ranges are in the order of the sources. */
  public record OpenBatch(long id, List<ReadRange> sources) {}

  /** The batch that {@code query} plans or runs now. Empty between two triggers. May be asked from any thread. */
  public static Optional<OpenBatch> openBatch(StreamingQuery query) {
    if (!(query instanceof StreamingQueryWrapper wrapper) || !query.status().isTriggerActive()) {
      return Optional.empty();
    }
    StreamExecution execution = wrapper.streamingQuery();
    StreamExecutionContext batch = execution.getLatestExecutionContext();
    List<ReadRange> ranges = CollectionConverters.asJava(execution.sources()).stream().map(source -> {
      String start = textOf(batch.startOffsets(), source);
      String first = source instanceof StartOfBatch known ? known.startOfBatch().orElse(null) : null;
      return new ReadRange(
          start == null ? first : start, textOf(batch.endOffsets(), source), textOf(batch.latestOffsets(), source));
    }).toList();
    return Optional.of(new OpenBatch(batch.batchId(), ranges));
  }

  private static String textOf(StreamProgress offsets, SparkDataStream source) {
    Option<Offset> found = offsets.get(source);
    return found.isEmpty() ? null : found.get().json();
  }

  /** The id in the checkpoint's metadata, the same in all runs of the query. */
  public String id() {
    return execution.id().toString();
  }

  /** What the names of a job's queries begin with, {@code job/index}; of a query without a name its id. */
  public String nameOfJob() {
    return execution.name() == null ? id() : execution.name().replaceFirst("/\\d+$", "");
  }

  /** What the job's queries do with a row, by a digest (`penstock.spark.consumers`); empty where nobody has said so. */
  public String digest() {
    return execution.sparkSessionForStream().conf().get("penstock.query", "");
  }

  public String runId() {
    return execution.runId().toString();
  }

  /** The order to take no more rows that the query is under. Its batch runs to the end. */
  public Optional<QuiesceOrder> order() {
    return QuiesceOrders.of(execution.runId(), execution.name());
  }

  /**
   * From now on a trigger comes at once while the query reads on by an order, and when an order is over by which the
   * trigger before got no rows. Only from {@link #ofThisThread}.
   */
  public void readOnAtOnce() {
    new TriggerClock(this::readsOn).install(((MicroBatchExecution) execution).triggerExecutor());
  }

  private boolean readsOn() {
    return order()
        .map(own -> own.readsTo().isPresent() && !own.isReached(inputs()))
        .orElseGet(() -> inputs().stream().anyMatch(ReadState::wasRefused));
  }

  /**
   * What a quiet query says of itself.
   *
   * @param order what it answers
   * @param watermarkMillis after its last batch; 0 without one
   * @param isCaughtUp whether it has nothing left to read but what came in since about the time of the order
   */
  public record Quiet(QuiesceOrder order, long watermarkMillis, boolean isCaughtUp) {}

  /**
   * Present when {@code query} gets no more rows, by an order, and has finished its last batch with rows. An empty
   * trigger would make a quiet query look busy, so {@code known}, what was found before, holds as long as the order. It
   * does not hold without inputs that know of orders: these may give rows again. From any thread.
   */
  public static Optional<Quiet> quiet(StreamingQuery query, Optional<Quiet> known) {
    if (!(query instanceof StreamingQueryWrapper wrapper)
        || !(wrapper.streamingQuery() instanceof MicroBatchExecution execution)) {
      return Optional.empty();
    }
    RunningQuery running = new RunningQuery(execution);
    QuiesceOrder order = running.order().orElse(null);
    List<ReadState> inputs = running.inputs();
    if (order != null && known.isPresent() && known.get().order().equals(order) && query.isActive()
        && !inputs.isEmpty()) {
      return known;
    }
    // First whether the next trigger gets no rows, then whether one is active: none with rows can begin in between.
    if (order == null || !running.hasBegun() || !order.isReached(inputs) || !query.isActive()
        || query.status().isTriggerActive()) {
      return Optional.empty();
    }
    long lastBatchNanos = TimeUnit.MILLISECONDS.toNanos(running.lastBatch().map(EndedBatch::millis).orElse(0L));
    boolean caughtUp = !inputs.isEmpty() && order.isCaughtUp(inputs, lastBatchNanos);
    return Optional.of(new Quiet(order, running.watermarkMillis(), caughtUp));
  }

  /** Before that the sources are not known, nor the watermark of the checkpoint. */
  private boolean hasBegun() {
    return ((MicroBatchExecution) execution).watermarkTracker() != null && !sources().isEmpty()
        && (hasRunBatches() || inputs().stream().allMatch(ReadState::hasBegun));
  }

  private List<ReadState> inputs() {
    return sources().stream()
        .flatMap(source -> source instanceof ReadsToEnd input ? Stream.of(input.readState()) : Stream.empty())
        .toList();
  }

  /** The sources in the order of the checkpoint's offset log. */
  public List<SparkDataStream> sources() {
    return CollectionConverters.asJava(execution.sources());
  }

  /** The id of the batch that the query plans or runs now. */
  public long batchId() {
    return execution.getLatestExecutionContext().batchId();
  }

  /** The end offsets of the current batch, one text for each source in the order of {@link #sources}. */
  public List<String> endOffsets() {
    StreamProgress ends = execution.getLatestExecutionContext().endOffsets();
    return sources().stream().map(ends::get).map(end -> end.isEmpty() ? "" : end.get().json()).toList();
  }

  /** The start offsets of the current batch, in the same order. Only for sources of micro-batches. */
  public List<String> startOffsets() {
    StreamProgress starts = execution.getLatestExecutionContext().startOffsets();
    return sources().stream().map(source -> {
      Option<?> start = starts.get(source);
      Object first = start.isEmpty() ? ((MicroBatchStream) source).initialOffset() : start.get();
      return ((Offset) first).json();
    }).toList();
  }

  /** A batch that has ended: its id, the rows of all sources, and how long all of it took. */
  public record EndedBatch(long id, long rows, long millis) {}

  /** The last batch of this run that has ended. Empty before the first one, and when the last trigger ran no batch. */
  public Optional<EndedBatch> lastBatch() {
    return Optional.ofNullable(execution.lastProgress())
        .filter(progress -> progress.durationMs().containsKey("addBatch"))
        .map(progress -> new EndedBatch(progress.batchId(), progress.numInputRows(),
            progress.durationMs().get("triggerExecution")));
  }

  /** Milliseconds since 1970; 0 before the first row. Only for queries from {@link #ofThisThread}. */
  public long watermarkMillis() {
    return ((MicroBatchExecution) execution).watermarkTracker().currentWatermark();
  }

  /**
   * Sets the watermark of the next batch, if Spark or a source finds a reason to run one. Only for queries from
   * {@link #ofThisThread}.
   *
   * <p>Spark has already stored the watermark of the next batch when it looked for such a reason, and refuses another
   * value. The stored value is removed first.
   */
  public void setWatermark(long millis) {
    IncrementalExecution last = execution.lastExecution();
    if (last != null) {
      last.watermarkPropagator().purge(last.currentBatchId() + 1);
    }
    ((MicroBatchExecution) execution).watermarkTracker().setWatermark(millis);
  }

  /** Whether this run has run a batch. Before its first batch Spark does not ask whether the watermark needs one. */
  public boolean hasRunBatches() {
    return execution.lastExecution() != null;
  }

  /** Whether an operator keeps rows that a later watermark could release. True while that is unknown. */
  public boolean mayHoldState() {
    StreamingQueryProgress progress = execution.lastProgress();
    if (progress == null || !hasRunBatches()) {
      return true;
    }
    return Arrays.stream(progress.stateOperators()).mapToLong(StateOperatorProgress::numRowsTotal).sum() > 0;
  }

  /**
   * Makes {@code bound} a limit of every later watermark. To be called by a source before its first batch ends, as often
   * as it likes. Only for queries from {@link #ofThisThread}.
   */
  public BoundedWatermark boundWatermark(LongSupplier bound) {
    MicroBatchExecution batches = (MicroBatchExecution) execution;
    if (batches.watermarkTracker() instanceof BoundedWatermark bounded) {
      return bounded;
    }
    String policy = execution.sparkSessionForStream().conf().get(BoundedWatermark.POLICY, "min");
    BoundedWatermark bounded = new BoundedWatermark(policy, execution.logicalPlan(), bound);
    bounded.setWatermark(batches.watermarkTracker().currentWatermark());
    batches.watermarkTracker_$eq(bounded);
    return bounded;
  }

  /** Whether the query declares event times. Only for queries of micro-batches. */
  public boolean hasWatermark() {
    return !((MicroBatchExecution) execution).watermarkTracker().watermarkMap().isEmpty();
  }

  /** The watermark that the rows of the current batch are held against, in milliseconds since 1970. */
  public long watermarkOfBatchMillis() {
    return execution.getLatestExecutionContext().offsetSeqMetadata().batchWatermarkMs();
  }

  /**
   * The watermark after the batch whose tasks have just ended. Spark itself takes it when the sink has committed; taking
   * it twice changes nothing.
   */
  public long watermarkAfterBatchMillis() {
    WatermarkTracker tracker = ((MicroBatchExecution) execution).watermarkTracker();
    tracker.updateWatermark(execution.lastExecution().executedPlan());
    return tracker.currentWatermark();
  }

  /** Whether the current batch has an operator with state. */
  public boolean isStateful() {
    return execution.lastExecution() != null && isStateful(execution.lastExecution().executedPlan());
  }

  /** The table that the query writes to. */
  public String sinkName() {
    return execution.sink().name();
  }

  private static boolean isStateful(SparkPlan plan) {
    return plan instanceof StateStoreWriter
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(RunningQuery::isStateful);
  }

  private static Optional<RunningQuery> find(SparkSession session, String queryId) {
    StreamExecution found = session.sharedState().activeStreamingQueries().get(UUID.fromString(queryId));
    return Optional.ofNullable(found).map(RunningQuery::new);
  }
}
