package io.penstock.streams;

import io.penstock.spark42.RunningQuery;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Spark's source for files, or Delta's, with as many files in a batch as it should take. Offsets and the checkpoint are
 * those of the source, so either can continue the other's query.
 */
final class PacedSource implements Source, SupportsTriggerAvailableNow {
  private final Source inner;
  private final int mostFiles;
  private final FilePace pace;
  private boolean hasLooked;

  /** {@code mostFiles}: of a batch, however quick it is. */
  PacedSource(Source inner, int mostFiles, long targetMillis) {
    this.inner = inner;
    this.mostFiles = mostFiles;
    this.pace = new FilePace(targetMillis);
  }

  @Override
  public StructType schema() {
    return inner.schema();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    hasLooked = true;
    return admission().latestOffset(start, RunningQuery.ofThisThread().map(query -> paced(limit, query)).orElse(limit));
  }

  /** A limit that asks for all that is available, as {@code Trigger.Once} does, stays as it is. */
  private ReadLimit paced(ReadLimit limit, RunningQuery query) {
    return limit instanceof ReadAllAvailable
        ? limit
        : ReadLimit.maxFiles((int) Math.min(mostFiles, pace.limit(query, query.sources().indexOf(this))));
  }

  @Override
  public Dataset<Row> getBatch(
      Option<org.apache.spark.sql.execution.streaming.Offset> start,
      org.apache.spark.sql.execution.streaming.Offset end) {
    Dataset<Row> rows = inner.getBatch(start, end);
    // When a query starts Spark also asks for the last batch that is committed, and does not run it.
    if (hasLooked) {
      RunningQuery.ofThisThread().ifPresent(query -> pace.planned(query, FilePace.filesOf(rows)));
    }
    return rows;
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return admission().getDefaultReadLimit();
  }

  @Override
  public Offset reportLatestOffset() {
    return admission().reportLatestOffset();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ((SupportsTriggerAvailableNow) inner).prepareForTriggerAvailableNow();
  }

  @Override
  public Option<org.apache.spark.sql.execution.streaming.Offset> getOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called in its place");
  }

  @Override
  public void commit(org.apache.spark.sql.execution.streaming.Offset end) {
    inner.commit(end);
  }

  @Override
  public void stop() {
    inner.stop();
  }

  @Override
  public String toString() {
    return inner.toString();
  }

  private SupportsAdmissionControl admission() {
    return (SupportsAdmissionControl) inner;
  }
}
