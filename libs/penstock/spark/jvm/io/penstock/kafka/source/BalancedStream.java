package io.penstock.kafka.source;

import io.penstock.host.QueryUse;
import io.penstock.kafka.marks.InputProgress;
import io.penstock.kafka.source.broker.KafkaLogs;
import io.penstock.kafka.source.hold.ProducerHold;
import io.penstock.kafka.source.idle.IdleInput;
import io.penstock.kafka.source.limits.ReadLimits;
import io.penstock.kafka.source.limits.SourcePace;
import io.penstock.kafka.source.offsets.ClusterNames;
import io.penstock.kafka.source.offsets.Cuts;
import io.penstock.kafka.source.offsets.LeaderOffsetLog;
import io.penstock.kafka.source.offsets.OffsetsJson;
import io.penstock.kafka.source.plan.BalanceMode;
import io.penstock.kafka.source.plan.BatchHorizon;
import io.penstock.kafka.source.plan.BatchPlanner;
import io.penstock.kafka.source.plan.OtherSources;
import io.penstock.kafka.source.skew.SkewGauge;
import io.penstock.kafka.source.topics.MatchingTopics;
import io.penstock.kafka.source.topics.TopicIntake;
import io.penstock.kafka.source.topics.TopicNotes;
import io.penstock.spark42.BoundedWatermark;
import io.penstock.spark42.QuiesceOrder;
import io.penstock.spark42.ReadState;
import io.penstock.spark42.ReadsToEnd;
import io.penstock.spark42.RunningQuery;
import io.penstock.spark42.StartOfBatch;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;

/**
 * Spark's Kafka stream with other ends of batches. The checkpoint has Spark's own form, so Spark's source and this one
 * can continue each other's queries, unless topics have the name of a cluster. State that is kept from batch to batch
 * only saves look-ups.
 */
final class BalancedStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics, InputProgress, StartOfBatch,
        ReadsToEnd {
  private final KafkaMicroBatchStream spark;
  private final SourceOptions options;
  private final ClusterNames names;
  private final KafkaLogs logs;
  private final TopicIntake intake;
  private final BatchPlanner planner;
  private final SkewGauge skew;
  private final Optional<IdleInput> idle;
  private final Optional<LeaderOffsetLog> leader;
  private final Optional<SourcePace> pace;
  private final Optional<ProducerHold> producers;
  private final BatchReads reads = new BatchReads();
  private final ReadState readState = new ReadState();
  private volatile OptionalLong readAllNanos = OptionalLong.empty();
  private volatile Optional<Offset> batchStart = Optional.empty();
  private boolean hasBegun;
  private boolean availableNow;
  private boolean hasLooked;
  private String startText = "";

  /** {@code topics}: of a source that reads the same partitions of all topics of a pattern, with where it notes them. */
  BalancedStream(KafkaMicroBatchStream spark, SourceOptions options, Optional<MatchingTopics> topics, TopicNotes notes) {
    this.spark = spark;
    this.options = options;
    this.names = options.names();
    this.logs = new KafkaLogs(spark, options.times());
    this.intake = new TopicIntake(topics, logs, notes);
    this.planner = new BatchPlanner(options.balance(), options.toleranceMillis(), logs);
    this.skew = new SkewGauge(logs, options.skewEveryBatches(), options.skewWarningMillis());
    this.idle = options.idleTimeoutMillis().isEmpty()
        ? Optional.empty()
        : Optional.of(new IdleInput(options.idleTimeoutMillis().getAsLong()));
    this.producers = options.producers().marks().map(topic -> new ProducerHold(
        logs, logs.marks(topic, options.producers().until()), options.producers().delayMillis(), options.producers().patienceMillis()));
    this.leader = options.followOffsetLog().map(this::leaderLog);
    this.pace = options.targetBatchMillis().isEmpty() || options.stopAt().isPresent()
        ? Optional.empty()
        : Optional.of(SourcePace.ofRecords(options.targetBatchMillis().getAsLong()));
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Optional<RunningQuery> query = RunningQuery.ofThisThread();
    begin(query);
    Optional<QuiesceOrder> order = query.flatMap(RunningQuery::order);
    Optional<String> cuts = order.flatMap(QuiesceOrder::readsTo);
    if (order.isPresent()) {
      idle.ifPresent(IdleInput::recordRows); // What came in meanwhile is not known: that time is no idle time.
    }
    if (order.isPresent() && cuts.isEmpty()) {
      readState.refuse();
      return noNewRows(start, false);
    }
    long asked = System.nanoTime();
    readAllNanos = OptionalLong.empty();
    readState.plan();
    ReadLimits limits = paced(ReadLimits.of(limit), query);
    Offset sparksEnd = spark.latestOffset(toSparks(start), cuts.isEmpty() ? sparkLimit(limit, limits) : limits.least());
    hasLooked = true;
    if (sparksEnd == null) {
      return null;
    }
    Map<TopicPartition, Long> starts = parse(start);
    Map<TopicPartition, Long> available = ofSpark(sparksEnd);
    boolean forgets = order.isEmpty() && intake.forgets(allOf(start));
    boolean changesTopics = intake.add(starts, available, order.isEmpty()) || forgets;
    followProducers(starts);
    Map<TopicPartition, Long> bounded = cuts.map(own -> Cuts.bound(own, names, starts, available)).orElse(available);
    Map<TopicPartition, Long> ends = ends(starts, bounded, limits);
    readState.planned(asked, ends.equals(latest(available)), ends.equals(bounded) ? cuts : Optional.empty());
    pace.ifPresent(own -> query.ifPresent(running -> own.planned(running, SourcePace.rowsBetween(starts, ends))));
    if (skew.isOn()) {
      skew.afterPlan(starts, ends, latest(available));
    }
    boolean isIdle = available.equals(starts) && cuts.isEmpty() && !changesTopics;
    if (isIdle) {
      readAllNanos = OptionalLong.of(asked);
    }
    if (ends.equals(starts) && !changesTopics) {
      return noNewRows(start, isIdle);
    }
    idle.ifPresent(IdleInput::recordRows);
    Map<TopicPartition, Long> sparks = intake.isOn() ? ofSpark(sparksEnd) : available;
    return named(ends.equals(sparks) ? sparksEnd : ofMap(ends));
  }

  @Override
  public Offset latestOffset() {
    return named(spark.latestOffset());
  }

  @Override
  public Offset reportLatestOffset() {
    return hasLooked ? named(spark.reportLatestOffset()) : null; // Spark's stream fails when nobody has asked it for offsets
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    ReadLimit limit = ReadLimits.with(spark.getDefaultReadLimit(), options.maxBytes());
    return pace.isPresent() ? ReadLimits.ofOwn(limit) : limit;
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
    spark.prepareForTriggerAvailableNow();
  }

  @Override
  public Offset initialOffset() {
    Offset begin = spark.initialOffset();
    if (intake.isOn()) {
      intake.begin(ofSpark(begin).keySet());
    }
    return named(begin);
  }

  @Override
  public Offset deserializeOffset(String json) {
    startText = json;
    return names.cluster().isEmpty() ? spark.deserializeOffset(json) : new RewrittenOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    begin(RunningQuery.ofThisThread());
    batchStart = Optional.of(start);
    producers.ifPresent(hold -> hold.batchEndsAt(parse(end)));
    boundWatermark();
    Offset ends = intake.isOn() ? ofMap(intake.endsOfRead(parse(start), parse(end))) : toSparks(end);
    return reads.of(this, pace, spark.planInputPartitions(toSparks(start), ends));
  }

  @Override
  public Optional<String> startOfBatch() {
    return batchStart.map(Offset::json);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory readers = new GroupedReaderFactory(spark.createReaderFactory());
    return QueryUse.sourceBytes().<PartitionReaderFactory>map(bytes -> new ByteCountingReaderFactory(readers,
        bytes)).orElse(readers);
  }

  @Override
  public void commit(Offset end) {
    spark.commit(end);
  }

  @Override
  public void stop() {
    producers.ifPresent(ProducerHold::close);
    logs.close();
    spark.stop();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    Map<String, String> metrics = new LinkedHashMap<>(spark.metrics(latestConsumed.map(this::toSparks)));
    skew.millis().ifPresent(millis -> metrics.put("eventTimeSkewMillis", Long.toString(millis)));
    if (planner.lastHorizon().isPresent()) {
      metrics.put("eventTimeHorizonMillis", Long.toString(planner.lastHorizon().horizonMillis()));
    }
    producers.ifPresent(hold -> boundWatermark().ifPresent(
        watermark -> hold.report(metrics, watermark.ofRowsMillis())));
    metrics.put("balanceLookups", Long.toString(logs.lookups()));
    metrics.put("balanceLookupMillis", Long.toString(logs.millis()));
    return metrics;
  }

  @Override
  public long delayMillis() {
    return options.producers().delayMillis();
  }

  @Override
  public OptionalLong producersMillis() {
    return producers.map(ProducerHold::producersMillis).orElse(OptionalLong.empty());
  }

  @Override
  public OptionalLong producersAfterBatchMillis() {
    producers.ifPresent(ProducerHold::watermarkBound);
    return producersMillis();
  }

  @Override
  public boolean producersAreAtEnd() {
    return producers.map(ProducerHold::isAtEnd).orElse(true);
  }

  @Override
  public OptionalLong readAllNanos() {
    return readAllNanos;
  }

  @Override
  public ReadState readState() {
    return readState;
  }

  @Override
  public String toString() {
    return "Penstock" + spark;
  }

  private void begin(Optional<RunningQuery> query) {
    if (!hasBegun) {
      query.ifPresent(RunningQuery::readOnAtOnce);
    }
    hasBegun = true;
    readState.begin();
  }

  /** Advances the watermark that was held back, if the producers of all inputs have come further since. */
  private void followProducers(Map<TopicPartition, Long> starts) {
    if (producers.isEmpty()) {
      return;
    }
    producers.get().batchEndsAt(starts);
    producers.get().follow();
    boundWatermark().ifPresent(watermark -> {
      RunningQuery query = RunningQuery.ofThisThread().orElseThrow();
      long next = Math.min(watermark.ofRowsMillis(), watermarkBound(query));
      if (next > watermark.currentWatermark()) {
        query.setWatermark(next);
      }
    });
  }

  /** Empty when the input has no producers to follow, or outside a running query. */
  private Optional<BoundedWatermark> boundWatermark() {
    return producers.isEmpty()
        ? Optional.empty()
        : RunningQuery.ofThisThread().map(query -> query.boundWatermark(() -> watermarkBound(query)));
  }

  /** The bound of the watermark by the producers of all inputs. */
  private static long watermarkBound(RunningQuery query) {
    return holds(query).mapToLong(ProducerHold::watermarkBound).min().orElse(Long.MAX_VALUE);
  }

  private static long idleWatermarkBound(RunningQuery query) {
    return holds(query).mapToLong(ProducerHold::idleWatermarkBound).min().orElse(Long.MAX_VALUE);
  }

  private static Stream<ProducerHold> holds(RunningQuery query) {
    return query.sources().stream().flatMap(
        source -> source instanceof BalancedStream other ? other.producers.stream() : Stream.empty());
  }

  /** Spark's stream applies the whole limit when no option of this source changes the ends of batches. */
  private ReadLimit sparkLimit(ReadLimit limit, ReadLimits limits) {
    boolean plain = options.balance() == BalanceMode.OFF && limits.maxBytes().isEmpty() && options.stopAt().isEmpty()
        && pace.isEmpty();
    return plain ? limit : limits.least();
  }

  /** A limit that asks for all that is available, as {@code Trigger.Once} does, stays as it is. */
  private ReadLimits paced(ReadLimits limits, Optional<RunningQuery> query) {
    if (pace.isEmpty() || query.isEmpty() || limits.isUnlimited()) {
      return limits;
    }
    return pace.get().limit(limits, query.get(), query.get().sources().indexOf(this));
  }

  private Map<TopicPartition, Long> ends(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> available, ReadLimits limits) {
    if (leader.isPresent()) {
      return leader.get().next(starts)
          .filter(next -> next.entrySet().stream().allMatch(end -> end.getValue() <= available.get(end.getKey())))
          .orElse(starts);
    }
    Map<TopicPartition, Long> bounded =
        options.stopAt().isPresent() ? options.stopAt().get().bound(starts, available) : available;
    return planner.plan(starts, bounded, limits, limits.isUnlimited() ? OtherSources.NONE : otherSources());
  }

  private OtherSources otherSources() {
    List<SparkDataStream> sources = RunningQuery.ofThisThread().map(RunningQuery::sources).orElse(List.of());
    return OtherSources.of(sources.indexOf(this), sources.stream()
        .map(source -> source instanceof BalancedStream other ? other.planner.lastHorizon() : BatchHorizon.NONE)
        .toList());
  }

  /** The ends of the logs, also when Spark's stream has already limited {@code available}. */
  private Map<TopicPartition, Long> latest(Map<TopicPartition, Long> available) {
    Offset latest = spark.reportLatestOffset();
    return latest == null ? available : ofSpark(latest);
  }

  private Offset noNewRows(Offset start, boolean allRead) {
    boolean mustRun = allRead && !availableNow && idle.isPresent()
        && RunningQuery.ofThisThread().map(this::advancesWatermark).orElse(false);
    boolean announces = allRead && !availableNow && options.producers().announce()
        && RunningQuery.ofThisThread().map(query -> !query.hasRunBatches()).orElse(false);
    String text = startText.isBlank() ? start.json() : startText;
    if (mustRun || announces) {
      return new RewrittenOffset(RewrittenOffset.otherTextOf(text));
    }
    return text.equals(start.json()) ? start : new RewrittenOffset(text);
  }

  /** Advances the watermark if all sources are idle. Returns whether Spark must run a batch for it. */
  private boolean advancesWatermark(RunningQuery query) {
    List<SparkDataStream> sources = query.sources();
    List<IdleInput> inputs = sources.stream()
        .flatMap(source -> source instanceof BalancedStream other ? other.idle.stream() : Stream.empty())
        .toList();
    return sources.get(0) == this && inputs.size() == sources.size() && inputs.get(0).advance(inputs, query, idleWatermarkBound(query));
  }

  private Offset toSparks(Offset offset) {
    if (intake.isOn() || offset instanceof RewrittenOffset && names.cluster().isPresent()) {
      return ofMap(parse(offset));
    }
    return offset instanceof RewrittenOffset ? spark.deserializeOffset(offset.json()) : offset;
  }

  private Offset ofMap(Map<TopicPartition, Long> offsets) {
    return spark.deserializeOffset(OffsetsJson.format(offsets));
  }

  /** Spark's offset with the name of the cluster in the topic's name. {@code offset} may be null. */
  private Offset named(Offset offset) {
    return offset == null || names.cluster().isEmpty() ? offset : new RewrittenOffset(names.qualified(offset.json()));
  }

  private LeaderOffsetLog leaderLog(String folder) {
    return new LeaderOffsetLog(
        folder, options.followSource(), SparkSession.active().sparkContext().hadoopConfiguration());
  }

  private Map<TopicPartition, Long> parse(Offset offset) {
    return intake.read(allOf(offset));
  }

  /** With those of topics that the source does not read any more. */
  private Map<TopicPartition, Long> allOf(Offset offset) {
    return names.parse(offset.json(), "offsets of the checkpoint");
  }

  private static Map<TopicPartition, Long> ofSpark(Offset offset) {
    return OffsetsJson.parse(offset.json(), "offsets of Kafka");
  }
}
