package io.penstock.kafka.source;

import io.penstock.kafka.source.broker.SharedConsumers;
import io.penstock.kafka.source.limits.SourcePace;
import io.penstock.kafka.source.plan.PartitionGroups;
import io.penstock.kafka.source.plan.PartitionOrder;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.internal.SQLConf;

/** By how many Spark tasks, and with which Kafka consumers, the batches of a source are read. */
final class BatchReads {
  private final SharedConsumers consumers = new SharedConsumers();

  /**
   * Spark's input partitions of a batch in their order; grouped and with shared consumers where executors are inside the
   * driver. Elsewhere each executor has consumers of its own, and the sink's scope {@code partition} wants the same Spark
   * partitions in a repeated batch.
   *
   * @param pace says what a row costs; without it partitions are not grouped
   */
  InputPartition[] of(Optional<SourcePace> pace, InputPartition... planned) {
    InputPartition[] ordered = PartitionOrder.of(planned);
    if (!SparkSession.active().sparkContext().isLocal()) {
      return ordered;
    }
    SQLConf session = SQLConf.get();
    double rowMillis = pace.map(SourcePace::rowMillis).orElse(Double.POSITIVE_INFINITY);
    int groups = PartitionGroups.number(
        ordered.length, session.numShufflePartitions(), PartitionGroups.rows(ordered), rowMillis);
    pace.ifPresent(own -> own.readBy(Math.min(groups, ordered.length)));
    return PartitionGroups.of(consumers.use(session, ordered), groups);
  }
}
