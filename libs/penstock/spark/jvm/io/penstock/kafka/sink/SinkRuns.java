package io.penstock.kafka.sink;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/** The runs of queries of this driver, by Spark's run id; each is closed when its query ends. */
final class SinkRuns {
  private static final Map<String, SinkRun> RUNS = new ConcurrentHashMap<>();
  private static String listenedTo = "";

  private SinkRuns() {}

  static SinkRun of(String runId, SinkOptions options) {
    listen(SparkContext.getOrCreate());
    SinkKeeper.start();
    return RUNS.computeIfAbsent(runId, id -> new SinkRun(options));
  }

  /** The run of a task in the driver's own JVM. */
  static SinkRun get(String runId) {
    SinkRun run = RUNS.get(runId);
    if (run == null) {
      throw new RetryableSinkException("the run " + runId + " has ended, or its driver is another JVM");
    }
    return run;
  }

  static int size() {
    return RUNS.size();
  }

  static void refresh(long nowNanos) {
    RUNS.values().forEach(run -> run.refresh(nowNanos));
  }

  static void end(String runId) {
    SinkRun run = RUNS.remove(runId);
    if (run != null) {
      run.close();
    }
    PartitionProducers.closeAll(runId);
  }

  /** Query listeners are of one session, and a driver has many; Spark's own listener hears of all. */
  private static synchronized void listen(SparkContext context) {
    if (!listenedTo.equals(context.applicationId())) {
      listenedTo = context.applicationId();
      context.addSparkListener(new Ends());
    }
  }

  private static final class Ends extends SparkListener {
    @Override
    public void onOtherEvent(SparkListenerEvent event) {
      if (event instanceof StreamingQueryListener.QueryTerminatedEvent ended) {
        end(ended.runId().toString());
      }
    }

    @Override
    public void onApplicationEnd(SparkListenerApplicationEnd ended) {
      RUNS.keySet().forEach(SinkRuns::end);
    }
  }
}
