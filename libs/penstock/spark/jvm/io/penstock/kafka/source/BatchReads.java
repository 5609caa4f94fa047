package io.penstock.kafka.source;

import io.penstock.kafka.source.broker.SharedConsumers;
import io.penstock.kafka.source.limits.SourcePace;
import io.penstock.kafka.source.plan.PartitionGroups;
import io.penstock.kafka.source.plan.PartitionOrder;
import io.penstock.spark42.RunningQuery;
import java.util.Optional;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.internal.SQLConf;

/** By how many Spark tasks, and with which Kafka consumers, the batches of a source are read. */
final class BatchReads {
  private final SharedConsumers consumers = new SharedConsumers();

  /**
   * Spark's input partitions of a batch in their order, read by shared consumers, and grouped, where the session names
   * consumers. Executors must be inside the driver: elsewhere each has consumers of its own, and the sink's scope
   * {@code partition} wants the same Spark partitions in a repeated batch.
   *
   * @param source two of a query that read the same topic have consumers of their own
   * @param pace says what a row costs; without it, and in a repeated batch, partitions are not grouped
   */
  InputPartition[] of(SparkDataStream source, Optional<SourcePace> pace, InputPartition... planned) {
    InputPartition[] ordered = PartitionOrder.of(planned);
    SparkContext context = SparkSession.active().sparkContext();
    SQLConf session = SQLConf.get();
    String name = ordered.length == 0 ? "" : SharedConsumers.nameOf(session, PartitionGroups.topicOf(ordered[0]));
    if (name.isEmpty() || !context.isLocal()) {
      return ordered;
    }
    int groups = pace.filter(BatchReads::isNew).map(own -> PartitionGroups.number(ordered.length,
        session.numShufflePartitions(), PartitionGroups.rows(ordered), SourcePace.rowMillis(name))).orElse(ordered.length);
    pace.ifPresent(own -> own.readBy(name, Math.min(groups, context.defaultParallelism())));
    int index = RunningQuery.ofThisThread().map(query -> query.sources().indexOf(source)).orElse(0);
    return PartitionGroups.of(consumers.use(session, index, ordered), groups);
  }

  private static boolean isNew(SourcePace pace) {
    return RunningQuery.ofThisThread().map(pace::hasPlanned).orElse(false);
  }
}
