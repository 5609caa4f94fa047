package io.penstock.kafka.sink.run;

import io.penstock.kafka.sink.clients.ClientHousekeeper;
import io.penstock.kafka.sink.clients.PartitionProducer;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.spark42.RunningQuery;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/** The runs of queries in this driver, by Spark's run id. A run is closed when its query ends. */
public final class SinkRuns {
  private static final Map<String, SinkRun> RUNS = new ConcurrentHashMap<>();
  private static String listenedTo = "";

  static {
    ClientHousekeeper.everySecond(nowNanos -> RUNS.values().forEach(run -> run.refresh(nowNanos)));
  }

  private SinkRuns() {}

  public static SinkRun of(RunningQuery query, SinkOptions options) {
    listen(SparkContext.getOrCreate());
    return RUNS.computeIfAbsent(query.runId(), id -> new SinkRun(options, query));
  }

  /** The run for a task that runs inside the driver's JVM. */
  public static SinkRun get(String runId) {
    return Optional.ofNullable(RUNS.get(runId)).orElseThrow(
        () -> new RetryableSinkException("the run " + runId + " has ended, or its driver is another JVM"));
  }

  public static void end(String runId) {
    SinkRun run = RUNS.remove(runId);
    if (run != null) {
      run.close();
    }
    PartitionProducer.closeAll(runId);
  }

  /** A query listener hears of one session only, and a driver has many. A Spark listener hears of all queries. */
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
