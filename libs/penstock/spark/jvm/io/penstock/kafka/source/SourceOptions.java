package io.penstock.kafka.source;

import com.fasterxml.jackson.core.JsonPointer;
import io.penstock.kafka.source.broker.EventTimes;
import io.penstock.kafka.source.broker.FieldTimes;
import io.penstock.kafka.source.offsets.ClusterNames;
import io.penstock.kafka.source.offsets.OffsetsJson;
import io.penstock.kafka.source.offsets.StopOffsets;
import io.penstock.kafka.source.plan.BalanceMode;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.commons.lang3.math.NumberUtils;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options of the source in addition to those of Spark's Kafka source. README.md describes each. */
record SourceOptions(
    BalanceMode balance,
    EventTimes times,
    OptionalLong maxBytes,
    OptionalLong targetBatchMillis,
    long skewEveryBatches,
    OptionalLong skewWarningMillis,
    Optional<StopOffsets> stopAt,
    Optional<String> followOffsetLog,
    int followSource,
    OptionalLong idleTimeoutMillis,
    ProducerOptions producers,
    ClusterNames names) {
  private static final long DEFAULT_TOLERANCE_MILLIS = 10_000;
  private static final List<String> NOT_FOR_FOLLOWERS =
      List.of(
          "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "targetBatchMillis", "stopAtOffsets",
          "cluster");

  /**
   * How the source follows the producers of its topic.
   *
   * @param marks the topic with their marks; empty: they are not followed
   * @param until the offset of that topic from which on marks are not read
   * @param delayMillis the watermark delay
   * @param patienceMillis how long a producer that comes no further is waited for; empty: for ever
   * @param announce whether the query runs a batch without rows when it starts and has none to read
   */
  record ProducerOptions(
      Optional<String> marks, long until, long delayMillis, OptionalLong patienceMillis, boolean announce) {}

  /** Raises IllegalArgumentException that names the option and its rule. {@code zone} is the session's time zone. */
  static SourceOptions of(CaseInsensitiveStringMap options, ZoneId zone) {
    BalanceMode asked = BalanceMode.of(options.getOrDefault("balance", "auto"));
    boolean hasField = options.containsKey("balanceField");
    requireConsistentField(asked, hasField);
    Optional<String> leader = Optional.ofNullable(options.get("followOffsetLog"));
    if (leader.isPresent()) {
      NOT_FOR_FOLLOWERS.forEach(name -> requireAbsent(options, name));
    }
    return new SourceOptions(
        asked == BalanceMode.AUTO && hasField ? BalanceMode.FIELD : asked,
        hasField ? field(options, zone) : EventTimes.OF_RECORD,
        positive(options, "maxBytesPerTrigger"),
        positive(options, "targetBatchMillis"),
        count(options, "skewEveryBatches"),
        positive(options, "skewWarningMillis"),
        Optional.ofNullable(options.get("stopAtOffsets")).map(SourceOptions::stopOffsets),
        leader,
        (int) count(options, "followSource"),
        count(options, "idleTimeoutMillis") == 0 ? OptionalLong.empty() : positive(options, "idleTimeoutMillis"),
        producers(options),
        new ClusterNames(Optional.ofNullable(options.get("cluster"))));
  }

  /** How much the event times at which partitions end may differ: a tenth of the watermark delay, 10 s at most. */
  long toleranceMillis() {
    return Math.min(DEFAULT_TOLERANCE_MILLIS, skewWarningMillis.orElse(Long.MAX_VALUE) / 10);
  }

  private static ProducerOptions producers(CaseInsensitiveStringMap options) {
    return new ProducerOptions(
        Optional.ofNullable(options.get("producerMarks")),
        options.containsKey("producerMarksUntil") ? number(options, "producerMarksUntil", 0) : Long.MAX_VALUE,
        count(options, "watermarkDelayMillis"),
        positive(options, "producerPatienceMillis"),
        options.getBoolean("announce", false));
  }

  private static void requireConsistentField(BalanceMode asked, boolean hasField) {
    if (asked == BalanceMode.FIELD && !hasField) {
      throw new IllegalArgumentException("option balanceField: is required for balance=field");
    }
    if (hasField && (asked == BalanceMode.INDEX || asked == BalanceMode.SAMPLE)) {
      throw new IllegalArgumentException(
          "option balanceField: balance=" + asked + " goes by record timestamps; use balance=field");
    }
  }

  private static EventTimes field(CaseInsensitiveStringMap options, ZoneId zone) {
    String pointer = options.get("balanceField");
    String unit = options.getOrDefault("balanceFieldUnit", "seconds");
    if (!unit.equals("seconds") && !unit.equals("millis")) {
      throw new IllegalArgumentException("option balanceFieldUnit: must be seconds or millis, not '" + unit + "'");
    }
    String format = options.get("balanceFieldFormat");
    FieldTimes times =
        format == null ? new FieldTimes.AsTimestamp(unit.equals("seconds") ? 1000 : 1, zone) : times(format, zone);
    try {
      return new EventTimes.OfField(JsonPointer.valueOf(pointer), times);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(
          "option balanceField: must be a JSON pointer such as /event_time, not '" + pointer + "'", error);
    }
  }

  private static FieldTimes times(String format, ZoneId zone) {
    try {
      return FieldTimes.of(format, zone);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException("option balanceFieldFormat: " + error.getMessage(), error);
    }
  }

  private static StopOffsets stopOffsets(String text) {
    Map<TopicPartition, Long> offsets = OffsetsJson.parse(text, "option stopAtOffsets");
    offsets.forEach(
        (partition, offset) -> {
          if (offset < 0) {
            throw new IllegalArgumentException(
                "option stopAtOffsets: must be offsets from 0 on, but has " + offset + " for " + partition);
          }
        });
    return new StopOffsets(offsets);
  }

  private static void requireAbsent(CaseInsensitiveStringMap options, String name) {
    if (options.containsKey(name)) {
      throw new IllegalArgumentException(
          "option " + name + ": does not go with followOffsetLog, since the leader decides where batches end");
    }
  }

  private static long count(CaseInsensitiveStringMap options, String name) {
    return options.containsKey(name) ? number(options, name, 0) : 0;
  }

  private static OptionalLong positive(CaseInsensitiveStringMap options, String name) {
    return options.containsKey(name) ? OptionalLong.of(number(options, name, 1)) : OptionalLong.empty();
  }

  private static long number(CaseInsensitiveStringMap options, String name, long least) {
    long number = NumberUtils.toLong(options.get(name).trim(), Long.MIN_VALUE);
    if (number < least) {
      throw new IllegalArgumentException(
          "option " + name + ": must be a whole number from " + least + " on, not '" + options.get(name) + "'");
    }
    return number;
  }
}
