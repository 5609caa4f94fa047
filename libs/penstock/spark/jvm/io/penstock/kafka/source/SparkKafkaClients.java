package io.penstock.kafka.source;

import io.penstock.kafka.source.broker.EventTimes;
import io.penstock.kafka.source.broker.KafkaLogs;
import io.penstock.kafka.source.broker.SampleReader;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.IsolationLevel;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaOffsetReader;
import org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin;

/** Access to the Kafka settings and the admin client of Spark's own Kafka stream. */
final class SparkKafkaClients {
  private SparkKafkaClients() {}

  static KafkaLogs logsOf(KafkaMicroBatchStream stream, EventTimes times) {
    KafkaOffsetReader reader = stream.kafkaOffsetReader();
    if (!(reader instanceof KafkaOffsetReaderAdmin admins)) {
      throw new IllegalStateException(
          "spark.sql.streaming.kafka.useDeprecatedOffsetFetching: must be false for penstock-kafka");
    }
    Map<String, Object> params = new HashMap<>(reader.driverKafkaParams());
    Supplier<Admin> admin = admins::admin;
    return new KafkaLogs(admin, () -> new SampleReader(params, times), isolationOf(params));
  }

  private static IsolationLevel isolationOf(Map<String, Object> params) {
    Object level = params.get(ConsumerConfig.ISOLATION_LEVEL_CONFIG);
    boolean committed = level != null && level.toString().toLowerCase(Locale.ROOT).equals("read_committed");
    return committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
  }
}
