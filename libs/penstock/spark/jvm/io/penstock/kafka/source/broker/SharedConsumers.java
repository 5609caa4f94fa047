package io.penstock.kafka.source.broker;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;

/**
 * Lets the queries of a host that read a topic for the same job, one after the other, use the same Kafka consumers.
 *
 * <p>Spark keeps consumers by their group, and each start of a query has a group of its own, so its first batch would
 * make a consumer for each partition. Here the group is named after the job, the topic's id, and the consumers'
 * settings: a topic made again and another login have other consumers. The consumers are assigned their partitions, so
 * Kafka never hears of the group. Its name shows nothing of a login: it is keyed by a secret of this JVM.
 */
public final class SharedConsumers {
  private static final String PREFIX = "penstock-source-";
  private static final String ALGORITHM = "HmacSHA256";
  private static final SecretKeySpec SECRET = secret();

  /** Before the name of a topic: the setting of a session that names the topic's consumers. */
  private static final String SETTING = "penstock.kafka.consumers.";

  private final Map<String, Map<String, Object>> byTopic = new HashMap<>();

  /**
   * The same partitions of Spark's Kafka source, read by shared consumers where the session names them. {@code source}:
   * its number in the query, since two sources that read one topic at once must not have the same consumers.
   */
  public InputPartition[] use(SQLConf session, int source, InputPartition... planned) {
    return Arrays.stream(planned).map(part -> shared(session, source, (KafkaBatchInputPartition) part))
        .toArray(InputPartition[]::new);
  }

  /** What the session's consumers of the topic are named after; empty if they are Spark's own. */
  public static String nameOf(SQLConf session, String topic) {
    return session.getConfString(SETTING + topic, "");
  }

  private KafkaBatchInputPartition shared(SQLConf session, int source, KafkaBatchInputPartition part) {
    String topic = part.offsetRange().topicPartition().topic();
    String name = nameOf(session, topic);
    if (name.isEmpty()) {
      return part;
    }
    Map<String, Object> settings = byTopic.computeIfAbsent(topic, each -> named(part.executorKafkaParams(), name + "/" + source));
    return new KafkaBatchInputPartition(part.offsetRange(), settings, part.pollTimeoutMs(), part.failOnDataLoss(),
        part.includeHeaders());
  }

  private static Map<String, Object> named(Map<String, Object> settings, String name) {
    Map<String, Object> own = new HashMap<>(settings);
    own.remove(ConsumerConfig.GROUP_ID_CONFIG);
    own.put(ConsumerConfig.GROUP_ID_CONFIG, PREFIX + keyed(name + new TreeMap<>(own)));
    return own;
  }

  private static String keyed(String text) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(SECRET);
      return HexFormat.of().formatHex(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)), 0, 16);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  private static SecretKeySpec secret() {
    byte[] bytes = new byte[32];
    new SecureRandom().nextBytes(bytes);
    return new SecretKeySpec(bytes, ALGORITHM);
  }
}
