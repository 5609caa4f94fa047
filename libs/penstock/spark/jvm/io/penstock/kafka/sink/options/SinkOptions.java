package io.penstock.kafka.sink.options;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.io.Serializable;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.commons.lang3.EnumUtils;
import org.apache.commons.lang3.StringUtils;
import org.apache.commons.lang3.math.NumberUtils;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The validated options of the sink.
 *
 * @param prefix the name of the series; transactional ids and marker groups begin with it
 * @param kafka the {@code kafka.*} options without that prefix
 * @param marks where the sink says how far in event time it has come
 */
public record SinkOptions(
    String topic,
    String prefix,
    TransactionScope scope,
    Duration producerIdle,
    Duration markerRefresh,
    TreeMap<String, String> kafka,
    MarkOptions marks)
    implements Serializable {
  private static final String KAFKA = "kafka.";
  private static final long PRODUCER_IDLE_SECONDS = 600;
  private static final long MARKER_REFRESH_SECONDS = 24 * 60 * 60;
  // The brokers' default maximum: a long batch should not run into the timeout.
  private static final long TRANSACTION_TIMEOUT_MILLIS = 15 * 60 * 1000;
  // Kafka's client waits so long after it has found the coordinator of a transaction, too: twice in a first batch.
  private static final int RETRY_BACKOFF_MILLIS = 20;
  private static final Set<String> OWN = Set.of(
      ProducerConfig.TRANSACTIONAL_ID_CONFIG,
      ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG,
      ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG,
      ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG);

  /** What one Kafka transaction holds. */
  public enum TransactionScope {
    /** A whole micro-batch: all tasks write into one transaction, which the driver commits. Needs one JVM. */
    BATCH,
    /** The rows of one Spark partition of a micro-batch. Works on a cluster. */
    PARTITION;

    /** The scope that {@code option} names. When {@code option} is null, the scope that fits {@code master}. */
    static TransactionScope of(String option, String master) {
      boolean inProcess = master.equals("local") || master.startsWith("local[");
      if (option == null) {
        return inProcess ? BATCH : PARTITION;
      }
      TransactionScope scope = parse(option);
      if (scope == BATCH && !inProcess) {
        throw new BrokenSinkException(
            "option transactionScope: batch needs the executors inside the driver (master local[...]), not " + master
                + "; remove the option or set it to partition");
      }
      return scope;
    }

    private static TransactionScope parse(String option) {
      TransactionScope scope = EnumUtils.getEnumIgnoreCase(TransactionScope.class, option);
      if (scope == null) {
        throw new BrokenSinkException(
            "option transactionScope: must be one of " + StringUtils.join(values(), ", ") + ", not " + option);
      }
      return scope;
    }

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  public static SinkOptions of(CaseInsensitiveStringMap options, String queryId, String master) {
    return new SinkOptions(
        required(options, "topic"),
        prefix(options, queryId),
        TransactionScope.of(options.get("transactionScope"), master),
        seconds(options, "producerIdleSeconds", PRODUCER_IDLE_SECONDS),
        seconds(options, "markerRefreshSeconds", MARKER_REFRESH_SECONDS),
        kafka(options),
        MarkOptions.of(options));
  }

  public Map<String, Object> producer(String transactionalId) {
    Map<String, Object> settings = new TreeMap<>(kafka);
    settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId);
    settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    settings.putIfAbsent(ProducerConfig.CLIENT_ID_CONFIG, transactionalId);
    settings.putIfAbsent(ProducerConfig.RETRY_BACKOFF_MS_CONFIG, RETRY_BACKOFF_MILLIS);
    return settings;
  }

  /** The settings of an admin client of the same brokers. */
  public static Map<String, Object> admin(Map<String, String> kafka) {
    Map<String, Object> settings = new TreeMap<>(kafka);
    settings.keySet().retainAll(AdminClientConfig.configNames());
    return settings;
  }

  /** The settings of a client in the options of a source or sink. */
  public static TreeMap<String, String> withoutPrefix(Map<String, String> options) {
    TreeMap<String, String> kafka = new TreeMap<>();
    options.forEach((name, value) -> {
      String lower = name.toLowerCase(Locale.ROOT);
      if (lower.startsWith(KAFKA)) {
        kafka.put(lower.substring(KAFKA.length()), value);
      }
    });
    return kafka;
  }

  /** Those options of a source that a sink for the same brokers has too. */
  public static Map<String, String> producerOptions(Map<String, String> options) {
    Map<String, String> shared = new TreeMap<>(options);
    shared.keySet().removeIf(
        name -> !name.startsWith(KAFKA) || !ProducerConfig.configNames().contains(name.substring(KAFKA.length())));
    return shared;
  }

  public Duration transactionTimeout() {
    return Duration.ofMillis(Long.parseLong(kafka.get(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG)));
  }

  private static String prefix(CaseInsensitiveStringMap options, String queryId) {
    String prefix = options.getOrDefault("transactionalIdPrefix", "penstock-" + queryId);
    if (prefix.isBlank()) {
      throw new BrokenSinkException("option transactionalIdPrefix: must not be empty");
    }
    return prefix;
  }

  static String required(CaseInsensitiveStringMap options, String name) {
    String value = options.get(name);
    if (value == null || value.isBlank()) {
      throw new BrokenSinkException("option " + name + ": is required");
    }
    return value;
  }

  static Duration seconds(CaseInsensitiveStringMap options, String name, long otherwise) {
    String text = options.getOrDefault(name, Long.toString(otherwise));
    long value = NumberUtils.toLong(text);
    if (value < 1) {
      throw new BrokenSinkException("option " + name + ": must be a whole number of seconds from 1 on, not " + text);
    }
    return Duration.ofSeconds(value);
  }

  private static TreeMap<String, String> kafka(CaseInsensitiveStringMap options) {
    TreeMap<String, String> kafka = withoutPrefix(options.asCaseSensitiveMap());
    check(kafka);
    kafka.putIfAbsent(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, Long.toString(TRANSACTION_TIMEOUT_MILLIS));
    return kafka;
  }

  private static void check(Map<String, String> kafka) {
    if (!kafka.containsKey(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG)) {
      throw new BrokenSinkException("option kafka.bootstrap.servers: is required");
    }
    for (String name : kafka.keySet()) {
      if (OWN.contains(name)) {
        throw new BrokenSinkException("option kafka." + name + ": is set by the sink itself; leave it out");
      }
    }
    String acks = kafka.getOrDefault(ProducerConfig.ACKS_CONFIG, "all");
    if (!acks.equals("all") && !acks.equals("-1")) {
      throw new BrokenSinkException("option kafka.acks: exactly once needs all, not " + acks);
    }
    String timeout = kafka.getOrDefault(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, "1");
    if (!timeout.matches("[1-9][0-9]{0,9}")) {
      throw new BrokenSinkException("option kafka.transaction.timeout.ms: must be milliseconds, not " + timeout);
    }
  }
}
