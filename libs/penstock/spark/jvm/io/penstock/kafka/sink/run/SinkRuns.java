package io.penstock.kafka.sink.run;

import io.penstock.kafka.sink.clients.ClientHousekeeper;
import io.penstock.kafka.sink.clients.PartitionProducer;
import io.penstock.kafka.sink.errors.RetryableSinkException;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.Marker;
import io.penstock.spark42.RunningQuery;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * The runs of series in this driver. A query has one for each of its sinks. Its runs, by Spark's run id, are closed when
 * it ends.
 */
public final class SinkRuns {
  private static final Map<Key, SinkRun> RUNS = new ConcurrentHashMap<>();
  private static String listenedTo = "";

  static {
    ClientHousekeeper.everySecond(nowNanos -> RUNS.values().forEach(run -> run.refresh(nowNanos)));
  }

  private record Key(String runId, String prefix) {}

  private SinkRuns() {}

  /**
   * The run for a batch that is about to be written. All other runs of the query get it too: until then they must not say
   * that it was read.
   */
  public static SinkRun of(RunningQuery query, SinkOptions options, Marker batch) {
    listen(SparkContext.getOrCreate());
    of(query.runId()).stream().map(RUNS::get).filter(Objects::nonNull).forEach(run -> run.await(batch));
    return RUNS.computeIfAbsent(new Key(query.runId(), options.prefix()), key -> new SinkRun(options, query));
  }

  private static List<Key> of(String runId) {
    return RUNS.keySet().stream().filter(key -> key.runId.equals(runId)).toList();
  }

  /** The run for a task that runs inside the driver's JVM. */
  public static SinkRun get(String runId, String prefix) {
    return Optional.ofNullable(RUNS.get(new Key(runId, prefix))).orElseThrow(
        () -> new RetryableSinkException("the run " + runId + " has ended, or its driver is another JVM"));
  }

  public static void end(String runId) {
    of(runId).stream().flatMap(key -> Optional.ofNullable(RUNS.remove(key)).stream()).forEach(SinkRun::close);
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
      RUNS.keySet().stream().map(Key::runId).distinct().forEach(SinkRuns::end);
    }
  }
}
