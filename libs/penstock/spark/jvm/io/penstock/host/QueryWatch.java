package io.penstock.host;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import com.sun.management.GarbageCollectorMXBean;
import com.sun.management.GcInfo;
import com.sun.management.OperatingSystemMXBean;
import io.penstock.kafka.source.StoppingQueries;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.ThreadMXBean;
import java.util.Comparator;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** Looks at all queries of a host in one call from Python: a call for each query would cost more than the queries. */
public final class QueryWatch {
  private static final int LONGEST_MESSAGE = 4000;
  private static final int MOST_CAUSES = 20;
  private static final long LOOK_MILLIS = 2;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final OperatingSystemMXBean PROCESS =
      ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
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
    Watched gone = QUERIES.remove(task);
    if (gone != null) {
      QueryUse.forget(gone.query.id().toString());
    }
  }

  /** From now on {@code use} knows what queries do. To be called once, before the first query. */
  public static void listen(SparkContext context) {
    QueryUse.listen(context);
  }

  /** JSON, a record a query: task, run, active, progress when there is a newer one, causes when it has failed. */
  public static String poll() throws com.fasterxml.jackson.core.JsonProcessingException {
    ArrayNode all = JSON.createArrayNode();
    QUERIES.forEach((task, watched) -> describe(all.addObject().put("task", task), watched));
    return JSON.writeValueAsString(all);
  }

  /**
   * JSON: {@code queries}, a record each: task, run and what it has used since it was started. CPU is that of its thread,
   * which plans batches, and of its Spark tasks. {@code cpuNanos}: of the whole JVM. {@code heapBytes}: of its heap after
   * the last collection; null before.
   */
  public static String use() throws com.fasterxml.jackson.core.JsonProcessingException {
    ObjectNode all = JSON.createObjectNode()
        .put("cpuNanos", PROCESS.getProcessCpuTime())
        .put("heapBytes", heapAfterCollection());
    ArrayNode queries = all.putArray("queries");
    QUERIES.forEach((task, watched) -> addUse(queries, task, watched.query));
    return JSON.writeValueAsString(all);
  }

  private static void addUse(ArrayNode queries, String task, StreamingQuery query) {
    long threadNanos = query instanceof StreamingQueryWrapper wrapper
        ? THREADS.getThreadCpuTime(wrapper.streamingQuery().queryExecutionThread().getId())
        : -1;
    if (threadNanos < 0) {
      return;
    }
    QueryUse.Used used = QueryUse.of(query.id().toString());
    queries.addObject()
        .put("task", task)
        .put("run", query.runId().toString())
        .put("cpuNanos", threadNanos + used.cpuNanos)
        .put("recordsRead", used.recordsRead)
        .put("bytesRead", used.bytesRead())
        .put("recordsWritten", used.recordsWritten)
        .put("bytesWritten", used.bytesWritten)
        .put("resultBytes", used.resultBytes);
  }

  private static Long heapAfterCollection() {
    return ManagementFactory.getPlatformMXBeans(GarbageCollectorMXBean.class).stream()
        .map(GarbageCollectorMXBean::getLastGcInfo)
        .filter(Objects::nonNull)
        .max(Comparator.comparingLong(GcInfo::getEndTime))
        .map(QueryWatch::heapAfter)
        .orElse(null);
  }

  private static long heapAfter(GcInfo collection) {
    return ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == MemoryType.HEAP)
        .map(MemoryPoolMXBean::getName)
        .mapToLong(pool -> collection.getMemoryUsageAfterGc().get(pool).getUsed())
        .sum();
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
