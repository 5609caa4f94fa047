package io.penstock.kafka.source.plan;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.source.broker.MadeUpLogs;
import io.penstock.kafka.source.limits.ReadLimits;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** A query that catches up: batch after batch, with the watermark of the rows read, as Spark computes it. */
final class CatchUp {
  private static final long BOGUS_MILLIS = 86_400_000L * 365;

  final MadeUpLogs logs;
  private final BatchPlanner planner;
  private final long delayMillis;
  int batches;
  long rowsLost;
  long largestBatch;

  CatchUp(MadeUpLogs logs, BalanceMode balance, long toleranceMillis, long delayMillis) {
    this.logs = logs;
    this.planner = new BatchPlanner(balance, toleranceMillis, logs);
    this.delayMillis = delayMillis;
  }

  /** Reads all; checks after each batch that it is not empty, goes forward and stays within the log. */
  CatchUp run(ReadLimits limits) {
    Map<TopicPartition, Long> starts = logs.starts();
    Map<TopicPartition, Long> ends = logs.ends();
    long watermark = Long.MIN_VALUE;
    while (!starts.equals(ends)) {
      Map<TopicPartition, Long> next = planner.plan(starts, ends, limits, OtherSources.NONE);
      long newest = readBatch(starts, next, ends, watermark);
      watermark = Math.max(watermark, newest - delayMillis);
      starts = next;
      batches++;
    }
    return this;
  }

  double lookupsPerBatch() {
    return (logs.indexLookups + logs.sampleLookups) / (double) batches;
  }

  private long readBatch(
      Map<TopicPartition, Long> starts,
      Map<TopicPartition, Long> next,
      Map<TopicPartition, Long> ends,
      long watermark) {
    long rows = 0;
    long newest = Long.MIN_VALUE / 2;
    long first = logs.timeAt(MadeUpLogs.partition(0), 0);
    for (TopicPartition partition : ends.keySet()) {
      assertTrue(next.get(partition) >= starts.get(partition), "goes back in " + partition);
      assertTrue(next.get(partition) <= ends.get(partition), "goes beyond the end of " + partition);
      for (long offset = starts.get(partition); offset < next.get(partition); offset++) {
        rows++;
        long millis = logs.timeAt(partition, offset);
        boolean counts = !logs.isMarker(partition, offset) && Math.abs(millis - first) < BOGUS_MILLIS;
        newest = counts ? Math.max(newest, millis) : newest;
        rowsLost += counts && millis < watermark ? 1 : 0;
      }
    }
    assertTrue(rows > 0, "a batch without rows");
    largestBatch = Math.max(largestBatch, rows);
    return newest;
  }
}
