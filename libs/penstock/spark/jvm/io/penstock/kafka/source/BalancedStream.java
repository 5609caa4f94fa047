package io.penstock.kafka.source;

import io.penstock.host.QueryUse;
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
 * Spark's Kafka stream, but for the ends of batches. All that is kept from batch to batch only saves look-ups; the
 * checkpoint is Spark's own, so either source can go on where the other stopped.
 */
final class BalancedStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final KafkaMicroBatchStream spark;
  private final SourceOptions options;
  private final KafkaLogs logs;
  private final BatchPlanner planner;
  private final SkewGauge skew;
  private final Optional<IdleInput> idle;
  private final Optional<LeaderLog> leader;
  private boolean availableNow;
  private String startText = "";

  BalancedStream(KafkaMicroBatchStream spark, SourceOptions options) {
    this.spark = spark;
    this.options = options;
    this.logs = SparkKafka.logsOf(spark, options.times());
    this.planner = new BatchPlanner(options.balance(), options.toleranceMillis(), logs, new RecordSizes(logs));
    this.skew = new SkewGauge(new SkewMeter(logs), options.skewEveryBatches(), options.skewWarningMillis());
    this.idle = options.idleTimeoutMillis().isEmpty()
        ? Optional.empty()
        : Optional.of(new IdleInput(options.idleTimeoutMillis().getAsLong(), System::currentTimeMillis));
    this.leader = options.followOffsetLog().map(this::leaderLog);
  }

  Optional<IdleInput> idleInput() {
    return idle;
  }

  Plan lastPlan() {
    return planner.last();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (RunningQuery.current().map(RunningQuery::isStopping).orElse(false)) {
      return nothingNew(start, false);
    }
    ReadLimits limits = ReadLimits.of(limit);
    Offset sparks = spark.latestOffset(start, sparksShare(limit, limits));
    if (sparks == null) {
      return null;
    }
    Map<TopicPartition, Long> starts = parse(start);
    Map<TopicPartition, Long> available = parse(sparks);
    addFresh(starts, available.keySet());
    Map<TopicPartition, Long> ends = ends(starts, available, limits);
    if (skew.isOn()) {
      skew.afterPlan(starts, ends, latest(available));
    }
    if (ends.equals(starts)) {
      return nothingNew(start, available.equals(starts));
    }
    idle.ifPresent(IdleInput::sawRows);
    return ends.equals(available) ? sparks : spark.deserializeOffset(OffsetsJson.format(ends));
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
    return SameOrder.of(spark.planInputPartitions(start, sparks(end)));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory readers = spark.createReaderFactory();
    return QueryUse.sourceBytes().<PartitionReaderFactory>map(bytes -> new CountedReads(readers, bytes)).orElse(readers);
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
    Map<String, String> metrics = new LinkedHashMap<>(spark.metrics(latestConsumed.map(this::sparks)));
    skew.millis().ifPresent(millis -> metrics.put("eventTimeSkewMillis", Long.toString(millis)));
    if (planner.last().hasHorizon()) {
      metrics.put("eventTimeHorizonMillis", Long.toString(planner.last().horizonMillis()));
    }
    metrics.put("balanceLookups", Long.toString(logs.lookups()));
    metrics.put("balanceLookupMillis", Long.toString(logs.millis()));
    return metrics;
  }

  @Override
  public String toString() {
    return "Penstock" + spark;
  }

  /** With nothing of ours to do, Spark's stream limits the batch as it always does. */
  private ReadLimit sparksShare(ReadLimit limit, ReadLimits limits) {
    boolean plain = options.balance() == Balance.OFF && limits.maxBytes().isEmpty() && options.stopAt().isEmpty();
    return plain ? limit : limits.least();
  }

  private Map<TopicPartition, Long> ends(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> available, ReadLimits limits) {
    if (leader.isPresent()) {
      return Boundaries.next(leader.get().read(), starts)
          .filter(next -> next.entrySet().stream().allMatch(end -> end.getValue() <= available.get(end.getKey())))
          .orElse(starts);
    }
    Map<TopicPartition, Long> bounded =
        options.stopAt().isPresent() ? options.stopAt().get().bound(starts, available) : available;
    return planner.plan(starts, bounded, limits, limits.isUnlimited() ? Company.NONE : company());
  }

  private Company company() {
    List<SparkDataStream> sources = RunningQuery.current().map(RunningQuery::sources).orElse(List.of());
    return sources.size() < 2
        ? Company.NONE
        : new Company(true, Pace.limitOf(this, sources).orElse(Cuts.NEVER));
  }

  private void addFresh(Map<TopicPartition, Long> starts, Set<TopicPartition> partitions) {
    Set<TopicPartition> fresh = new HashSet<>(partitions);
    fresh.removeAll(starts.keySet());
    if (!fresh.isEmpty()) {
      starts.putAll(logs.earliest(fresh));
    }
  }

  /** All that there is, where Spark's stream has cut it already. */
  private Map<TopicPartition, Long> latest(Map<TopicPartition, Long> available) {
    Offset latest = spark.reportLatestOffset();
    return latest == null ? available : parse(latest);
  }

  private Offset nothingNew(Offset start, boolean allRead) {
    boolean mustRun = allRead && !availableNow && idle.isPresent()
        && RunningQuery.current().map(query -> idle.get().advance(this, query)).orElse(false);
    String text = startText.isBlank() ? start.json() : startText;
    if (mustRun) {
      return SameOffset.unlike(text);
    }
    return text.equals(start.json()) ? start : SameOffset.withText(text);
  }

  private Offset sparks(Offset offset) {
    return offset instanceof SameOffset ? spark.deserializeOffset(offset.json()) : offset;
  }

  private LeaderLog leaderLog(String folder) {
    return new LeaderLog(
        folder, options.followSource(), SparkSession.active().sparkContext().hadoopConfiguration());
  }

  private static Map<TopicPartition, Long> parse(Offset offset) {
    return OffsetsJson.parse(offset.json(), "offsets of the checkpoint");
  }
}
