package io.penstock.kafka.source.topics;

import java.util.Optional;
import org.apache.commons.lang3.math.NumberUtils;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.kafka010.ConsumerStrategy;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's Kafka source, for one scan that reads the same partitions of all topics of a pattern. */
public final class PatternProvider extends KafkaSourceProvider {
  private static final String PATTERN = "subscribePattern";
  private static final String KEY_GROUPS = "keyGroups";
  private static final String EVERY = "newTopicsMillis";
  private static final String DEFAULT_MILLIS = "60000";

  private final MatchingTopics topics;

  private PatternProvider(MatchingTopics topics) {
    this.topics = topics;
  }

  /** Empty without the option {@code keyGroups}. Raises IllegalArgumentException that names the option and its rule. */
  public static Optional<PatternProvider> of(CaseInsensitiveStringMap options) {
    if (!options.containsKey(KEY_GROUPS)) {
      return Optional.empty();
    }
    if (!options.containsKey(PATTERN)) {
      throw new IllegalArgumentException("option " + KEY_GROUPS + ": goes with " + PATTERN);
    }
    long millis = NumberUtils.toLong(options.getOrDefault(EVERY, DEFAULT_MILLIS), -1);
    if (millis < 0) {
      throw new IllegalArgumentException("option " + EVERY + ": must be a whole number, not '" + options.get(EVERY) + "'");
    }
    KeyGroups keyGroups = KeyGroups.of(options.get(KEY_GROUPS));
    return Optional.of(new PatternProvider(new MatchingTopics(options.get(PATTERN), keyGroups, millis)));
  }

  public MatchingTopics topics() {
    return topics;
  }

  /** Private in Spark, and of this name for the class of its scans. */
  @Override
  public ConsumerStrategy org$apache$spark$sql$kafka010$KafkaSourceProvider$$strategy(
      CaseInsensitiveMap<String> options) {
    return topics;
  }
}
