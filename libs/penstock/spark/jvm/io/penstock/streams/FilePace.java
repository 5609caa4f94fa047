package io.penstock.streams;

import io.penstock.kafka.source.limits.SourcePace;
import io.penstock.spark42.RunningQuery;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/** How many files a stream gives to a batch, so that batches take about as long as they should. The first has one. */
final class FilePace {
  private final SourcePace pace;

  FilePace(long targetMillis) {
    pace = SourcePace.ofFiles(targetMillis);
  }

  /** The most files of the next batch, which {@code query} plans; {@code source}: the number of the stream there. */
  long limit(RunningQuery query, int source) {
    return pace.limit(query, source);
  }

  /** The batch that {@code query} plans has so many files. */
  void planned(RunningQuery query, long files) {
    pace.planned(query, files);
  }

  /** The files that the rows of a batch are read from. */
  static long filesOf(Dataset<?> rows) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<?>) rows).queryExecution().analyzed();
    return CollectionConverters.asJava(plan.collectLeaves()).stream().mapToLong(FilePace::filesOf).sum();
  }

  private static long filesOf(LogicalPlan leaf) {
    return leaf instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation folder
        ? folder.location().inputFiles().length
        : 0;
  }
}
