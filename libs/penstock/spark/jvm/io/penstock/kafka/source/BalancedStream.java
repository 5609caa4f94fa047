package io.penstock.kafka.source;

import io.penstock.host.QueryUse;
import io.penstock.kafka.source.broker.KafkaLogs;
import io.penstock.kafka.source.horizon.CandidateEvaluator;
import io.penstock.kafka.source.idle.IdleInput;
import io.penstock.kafka.source.limits.MeanRecordSizes;
import io.penstock.kafka.source.limits.ReadLimits;
import io.penstock.kafka.source.offsets.LeaderBatches;
import io.penstock.kafka.source.offsets.LeaderOffsetLog;
import io.penstock.kafka.source.offsets.OffsetsJson;
import io.penstock.kafka.source.plan.BalanceMode;
import io.penstock.kafka.source.plan.BatchHorizon;
import io.penstock.kafka.source.plan.BatchPlanner;
import io.penstock.kafka.source.plan.OtherSources;
import io.penstock.kafka.source.plan.SourcePacing;
import io.penstock.kafka.source.skew.SkewGauge;
import io.penstock.kafka.source.skew.SkewMeter;
import io.penstock.spark42.RunningQuery;
import io.penstock.kafka.source.plan.HorizonSource;
import io.penstock.kafka.source.idle.IdleSource;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
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
 * can continue each other's queries. State that is kept from batch to batch only saves look-ups.
 */
final class BalancedStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics, HorizonSource, IdleSource {
  private final KafkaMicroBatchStream spark;
  private final SourceOptions options;
  private final KafkaLogs logs;
  private final BatchPlanner planner;
  private final SkewGauge skew;
  private final Optional<IdleInput> idle;
  private final Optional<LeaderOffsetLog> leader;
  private boolean availableNow;
  private String startText = "";

  BalancedStream(KafkaMicroBatchStream spark, SourceOptions options) {
    this.spark = spark;
    this.options = options;
    this.logs = SparkKafkaClients.logsOf(spark, options.times());
    this.planner = new BatchPlanner(options.balance(), options.toleranceMillis(), logs, new MeanRecordSizes(logs));
    this.skew = new SkewGauge(new SkewMeter(logs), options.skewEveryBatches(), options.skewWarningMillis());
    this.idle = options.idleTimeoutMillis().isEmpty()
        ? Optional.empty()
        : Optional.of(new IdleInput(options.idleTimeoutMillis().getAsLong(), System::currentTimeMillis));
    this.leader = options.followOffsetLog().map(this::leaderLog);
  }

  @Override
  public Optional<IdleInput> idleInput() {
    return idle;
  }

  @Override
  public BatchHorizon lastHorizon() {
    return planner.lastHorizon();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (RunningQuery.ofThisThread().map(RunningQuery::isStopping).orElse(false)) {
      return noNewRows(start, false);
    }
    ReadLimits limits = ReadLimits.of(limit);
    Offset sparksEnd = spark.latestOffset(start, sparkLimit(limit, limits));
    if (sparksEnd == null) {
      return null;
    }
    Map<TopicPartition, Long> starts = parse(start);
    Map<TopicPartition, Long> available = parse(sparksEnd);
    addNewPartitions(starts, available.keySet());
    Map<TopicPartition, Long> ends = ends(starts, available, limits);
    if (skew.isOn()) {
      skew.afterPlan(starts, ends, latest(available));
    }
    if (ends.equals(starts)) {
      return noNewRows(start, available.equals(starts));
    }
    idle.ifPresent(IdleInput::recordRows);
    return ends.equals(available) ? sparksEnd : spark.deserializeOffset(OffsetsJson.format(ends));
  }

  @Override
  public Offset latestOffset() {
    return spark.latestOffset();
  }

  @Override
  public Offset reportLatestOffset() {
    return spark.reportLatestOffset();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimits.with(spark.getDefaultReadLimit(), options.maxBytes());
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
    spark.prepareForTriggerAvailableNow();
  }

  @Override
  public Offset initialOffset() {
    return spark.initialOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    startText = json;
    return spark.deserializeOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return OrderedPartitions.of(spark.planInputPartitions(start, toSparks(end)));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory readers = spark.createReaderFactory();
    return QueryUse.sourceBytes().<PartitionReaderFactory>map(bytes -> new ByteCountingReaderFactory(readers,
        bytes)).orElse(readers);
  }

  @Override
  public void commit(Offset end) {
    spark.commit(end);
  }

  @Override
  public void stop() {
    logs.close();
    spark.stop();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    Map<String, String> metrics = new LinkedHashMap<>(spark.metrics(latestConsumed.map(this::toSparks)));
    skew.millis().ifPresent(millis -> metrics.put("eventTimeSkewMillis", Long.toString(millis)));
    if (lastHorizon().isPresent()) {
      metrics.put("eventTimeHorizonMillis", Long.toString(lastHorizon().horizonMillis()));
    }
    metrics.put("balanceLookups", Long.toString(logs.lookups()));
    metrics.put("balanceLookupMillis", Long.toString(logs.millis()));
    return metrics;
  }

  @Override
  public String toString() {
    return "Penstock" + spark;
  }

  /** Spark's stream applies the whole limit when no option of this source changes the ends of batches. */
  private ReadLimit sparkLimit(ReadLimit limit, ReadLimits limits) {
    boolean plain = options.balance() == BalanceMode.OFF && limits.maxBytes().isEmpty() && options.stopAt().isEmpty();
    return plain ? limit : limits.least();
  }

  private Map<TopicPartition, Long> ends(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> available, ReadLimits limits) {
    if (leader.isPresent()) {
      return LeaderBatches.next(leader.get().read(), starts)
          .filter(next -> next.entrySet().stream().allMatch(end -> end.getValue() <= available.get(end.getKey())))
          .orElse(starts);
    }
    Map<TopicPartition, Long> bounded =
        options.stopAt().isPresent() ? options.stopAt().get().bound(starts, available) : available;
    return planner.plan(starts, bounded, limits, limits.isUnlimited() ? OtherSources.NONE : otherSources());
  }

  private OtherSources otherSources() {
    return RunningQuery.ofThisThread()
        .map(query -> SourcePacing.othersOf(this, query.sources()))
        .orElse(OtherSources.NONE);
  }

  private void addNewPartitions(Map<TopicPartition, Long> starts, Set<TopicPartition> partitions) {
    Set<TopicPartition> fresh = new HashSet<>(partitions);
    fresh.removeAll(starts.keySet());
    if (!fresh.isEmpty()) {
      starts.putAll(logs.earliest(fresh));
    }
  }

  /** The ends of the logs, also when Spark's stream has already limited {@code available}. */
  private Map<TopicPartition, Long> latest(Map<TopicPartition, Long> available) {
    Offset latest = spark.reportLatestOffset();
    return latest == null ? available : parse(latest);
  }

  private Offset noNewRows(Offset start, boolean allRead) {
    boolean mustRun = allRead && !availableNow && idle.isPresent()
        && RunningQuery.ofThisThread().map(query -> idle.get().advance(this, query)).orElse(false);
    String text = startText.isBlank() ? start.json() : startText;
    if (mustRun) {
      return RewrittenOffset.differentFrom(text);
    }
    return text.equals(start.json()) ? start : RewrittenOffset.withText(text);
  }

  private Offset toSparks(Offset offset) {
    return offset instanceof RewrittenOffset ? spark.deserializeOffset(offset.json()) : offset;
  }

  private LeaderOffsetLog leaderLog(String folder) {
    return new LeaderOffsetLog(
        folder, options.followSource(), SparkSession.active().sparkContext().hadoopConfiguration());
  }

  private static Map<TopicPartition, Long> parse(Offset offset) {
    return OffsetsJson.parse(offset.json(), "offsets of the checkpoint");
  }
}
