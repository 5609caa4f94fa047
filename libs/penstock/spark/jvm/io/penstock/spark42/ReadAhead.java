package io.penstock.spark42;

import java.lang.reflect.Method;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.consumer.FetchedDataPool;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$;

/** The records that Spark's Kafka consumers in this JVM have fetched, and that no query has read yet. */
public final class ReadAhead {
  private ReadAhead() {}

  /**
   * Drops those of a consumer group, from the partitions {@code from} to {@code until - 1} of a topic. The consumers
   * stay open. The next query of the group fetches again: by then the topic may be another one of the same name.
   */
  public static void drop(String group, String topic, int from, int until) throws ReflectiveOperationException {
    Method fetched = KafkaDataConsumer$.class.getDeclaredMethod("fetchedDataPool");
    fetched.setAccessible(true);
    FetchedDataPool pool = (FetchedDataPool) fetched.invoke(KafkaDataConsumer$.MODULE$);
    for (int partition = from; partition < until; partition++) {
      pool.invalidate(new KafkaDataConsumer.CacheKey(group, new TopicPartition(topic, partition)));
    }
  }
}
