package io.penstock.host;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import io.penstock.kafka.source.StoppingQueries;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** Looks at all queries of a host in one call from Python: a call for each query would cost more than the queries. */
public final class QueryWatch {
  private static final int LONGEST_MESSAGE = 4000;
  private static final int MOST_CAUSES = 20;
  private static final long LOOK_MILLIS = 2;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Watched> QUERIES = new ConcurrentHashMap<>();

  private QueryWatch() {}

  private static final class Watched {
    final StreamingQuery query;
    StreamingQueryProgress seen;

    Watched(StreamingQuery query) {
      this.query = query;
    }
  }

  public static void add(String task, StreamingQuery query) {
    QUERIES.put(task, new Watched(query));
  }

  public static void remove(String task) {
    QUERIES.remove(task);
  }

  /** JSON, a record a query: task, run, active, progress when there is a newer one, causes when it has failed. */
  public static String poll() throws com.fasterxml.jackson.core.JsonProcessingException {
    ArrayNode all = JSON.createArrayNode();
    QUERIES.forEach((task, watched) -> describe(all.addObject().put("task", task), watched));
    return JSON.writeValueAsString(all);
  }

  private static void describe(ObjectNode record, Watched watched) {
    record.put("run", watched.query.runId().toString()).put("active", watched.query.isActive());
    StreamingQueryProgress newest = watched.query.lastProgress();
    if (newest != null && newest != watched.seen) {
      watched.seen = newest;
      record.putRawValue("progress", new RawValue(newest.json()));
    }
    if (watched.query.exception().isDefined()) {
      describe(record.putArray("causes"), watched.query.exception().get());
    }
  }

  private static void describe(ArrayNode causes, Throwable error) {
    for (Throwable cause = error; cause != null && causes.size() < MOST_CAUSES; cause = cause.getCause()) {
      String message = String.valueOf(cause.getMessage());
      String shortened = message.substring(0, Math.min(message.length(), LONGEST_MESSAGE));
      causes.addObject().put("type", cause.getClass().getName()).put("message", shortened);
    }
  }

  /**
   * Stops a query between two batches when such a moment comes within {@code patienceMillis}, else in mid-batch. From
   * now on Penstock's source gives it no new rows, so the moment comes at the end of its batch, however busy it is.
   */
  public static void stop(StreamingQuery query, long patienceMillis) throws InterruptedException, TimeoutException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMillis);
    StoppingQueries.add(query.runId());
    try {
      while (query.isActive() && query.status().isTriggerActive() && System.nanoTime() < deadline) {
        Thread.sleep(LOOK_MILLIS);
      }
      query.stop();
    } finally {
      StoppingQueries.remove(query.runId());
    }
  }
}
