package io.penstock.kafka.sink;

import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;

/**
 * A transaction per Spark partition counts on a replayed batch having the same rows in the same partitions. Spark's own
 * Kafka source plans up to four of them in the order of a map, which is another after a restart: then one partition
 * would be left out for what another has written.
 */
final class RepeatableSources {
  private RepeatableSources() {}

  static void require(Iterable<? extends SparkDataStream> sources) {
    for (SparkDataStream source : sources) {
      if (source instanceof KafkaMicroBatchStream) {
        throw new BrokenSinkException(
            "transactionScope: partition needs sources that repeat their partitions in the same order, which Spark's"
                + " format kafka does not: read with format penstock-kafka, which takes the same options and goes on"
                + " with the same checkpoint");
      }
    }
  }
}
