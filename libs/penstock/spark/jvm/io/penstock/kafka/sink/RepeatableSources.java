package io.penstock.kafka.sink;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;

/**
 * The requirement of scope {@code partition}: a replayed batch has the same rows in the same Spark partitions. Spark's
 * own Kafka source breaks it: after a restart it may plan up to four partitions in another order.
 */
final class RepeatableSources {
  private RepeatableSources() {}

  static void require(List<SparkDataStream> sources) {
    if (sources.stream().anyMatch(KafkaMicroBatchStream.class::isInstance)) {
      throw new BrokenSinkException(
          "option transactionScope: partition needs sources that plan the partitions of a repeated batch in the same"
              + " order. Spark's format kafka does not: read with format penstock-kafka, which takes the same options"
              + " and continues the same checkpoint");
    }
  }
}
