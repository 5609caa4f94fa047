package io.penstock.host;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import com.sun.management.GarbageCollectorMXBean;
import com.sun.management.GcInfo;
import com.sun.management.OperatingSystemMXBean;
import io.penstock.sources.MalformedRecords;
import io.penstock.spark42.LoadedStores;
import io.penstock.spark42.OldestJobFirst;
import io.penstock.spark42.QuiesceOrders;
import io.penstock.spark42.RunningQuery;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** Reports on all queries of a host in one call from Python. A call for each query would cost more than the queries. */
public final class QueryWatch {
  private static final int MOST_CAUSES = 20;
  private static final long STOP_POLL_MILLIS = 2;
  /** Shorter batches are reported once they are done. */
  private static final long OPEN_MILLIS = 2_000;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final OperatingSystemMXBean PROCESS =
      ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
  private static final int MOST_FRAMES = 12;
  private static final Map<String, Watched> QUERIES = new ConcurrentHashMap<>();
  private static final Map<String, Thread> STARTS = new HashMap<>();

  private QueryWatch() {}

  private static final class Watched {
    final StreamingQuery query;
    final MalformedRecords malformed;
    StreamingQueryProgress seen;
    long lateRows;
    Optional<RunningQuery.Quiet> quiet = Optional.empty();
    long openId = -1;
    long openNanos;

    Watched(StreamingQuery query, MalformedRecords malformed) {
      this.query = query;
      this.malformed = malformed;
    }
  }

  public static void add(String task, StreamingQuery query, MalformedRecords malformed) {
    QuiesceOrders.hasStarted(task, query.runId());
    QUERIES.put(task, new Watched(query, malformed));
  }

  public static void remove(String task) {
    QuiesceOrders.forgetStart(task);
    Watched gone = QUERIES.remove(task);
    if (gone != null) {
      if (!gone.query.isActive()) {
        forgetRun(gone.query);
      }
      QueryUse.forget(gone.query.id().toString());
    }
  }

  /** Starts measuring what queries use, and shares cores among them. To be called once, before the first query. */
  public static void listen(SparkContext context) {
    OldestJobFirst.install(context);
    QueryUse.listen(context);
  }

  /**
   * JSON, one record for each query: {@code task}, {@code run}, {@code active}; {@code quiet} when it gets no more rows
   * and has finished its batch, with the order's {@code levelMillis}, {@code watermarkMillis} and {@code caughtUp}
   * ({@link RunningQuery.Quiet}); {@code progress} when a newer one exists, and with it {@code malformed}, the number of
   * malformed records since the query's start, if its records are decoded, and {@code lateRows}, the late rows that it
   * has dropped since then, if it has state; {@code open} when a batch runs for a while, with how long and what it reads;
   * {@code causes} when the query has failed.
   */
  public static String poll() throws com.fasterxml.jackson.core.JsonProcessingException {
    ArrayNode all = JSON.createArrayNode();
    QUERIES.forEach((task, watched) -> describe(all.addObject().put("task", task), watched));
    return JSON.writeValueAsString(all);
  }

  /**
   * JSON with three fields. {@code queries}: one record for each query with its task, run and what the query has used
   * since its start; its CPU is that of the thread that plans its batches and of its Spark tasks. {@code cpuNanos}: CPU
   * of the whole JVM. {@code heapBytes}: heap in use after the last collection; null before the first one.
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
    OptionalLong threadId = RunningQuery.threadIdOf(query);
    long threadNanos = threadId.isPresent() ? THREADS.getThreadCpuTime(threadId.getAsLong()) : -1;
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
    record.put("run", watched.query.runId().toString())
        .put("active", watched.query.isActive());
    watched.quiet = RunningQuery.quiet(watched.query, watched.quiet);
    watched.quiet.ifPresent(quiet -> describe(record.putObject("quiet"), quiet));
    StreamingQueryProgress newest = watched.query.lastProgress();
    if (newest != null && newest != watched.seen) {
      if (newest.stateOperators().length > 0) {
        watched.lateRows += lateRows(watched.query, watched.seen, newest);
        record.put("lateRows", watched.lateRows);
      }
      watched.seen = newest;
      record.putRawValue("progress", new RawValue(newest.json()));
      if (watched.malformed.counts()) {
        record.put("malformed", watched.malformed.count());
        describeRecords(record.putObject("records"), watched.malformed);
      }
    }
    describeOpenBatch(record, watched);
    if (watched.query.exception().isDefined()) {
      describe(record.putArray("causes"), watched.query.exception().get());
    }
  }

  private static void describeRecords(ObjectNode records, MalformedRecords malformed) {
    malformed.seen().forEach((input, seen) -> records.putArray(input)
        .add(seen.records())
        .add(seen.malformed())
        .add(seen.withoutTime()));
  }

  /**
   * Those of the batches after {@code seen} up to {@code newest}: also of batches that ended between two calls, as far as
   * Spark keeps their records (ten in a host). A batch that has ended since is for the next call.
   */
  private static long lateRows(StreamingQuery query, StreamingQueryProgress seen, StreamingQueryProgress newest) {
    StreamingQueryProgress[] records = query.recentProgress();
    int place = records.length - 1;
    while (place >= 0 && records[place] != newest) {
      place--;
    }
    long rows = 0;
    for (; place >= 0 && records[place] != seen; place--) {
      for (StateOperatorProgress operator : records[place].stateOperators()) {
        rows += operator.numRowsDroppedByWatermark();
      }
    }
    return rows;
  }

  private static void describeOpenBatch(ObjectNode record, Watched watched) {
    RunningQuery.OpenBatch batch = RunningQuery.openBatch(watched.query).orElse(null);
    long now = System.nanoTime();
    if (batch == null || batch.id() != watched.openId) {
      watched.openId = batch == null ? -1 : batch.id();
      watched.openNanos = now;
      return;
    }
    long millis = TimeUnit.NANOSECONDS.toMillis(now - watched.openNanos);
    if (millis >= OPEN_MILLIS) {
      ArrayNode sources = record.putObject("open").put("millis", millis).putArray("sources");
      batch.sources().forEach(source -> sources.addObject()
          .put("startOffset", source.start())
          .put("endOffset", source.end())
          .put("latestOffset", source.latest()));
    }
  }

  private static void describe(ObjectNode record, RunningQuery.Quiet quiet) {
    record.put("watermarkMillis", quiet.watermarkMillis()).put("caughtUp", quiet.isCaughtUp());
    quiet.order().levelMillis().ifPresent(level -> record.put("levelMillis", level));
  }

  private static void describe(ArrayNode causes, Throwable error) {
    for (Throwable cause = error; cause != null && causes.size() < MOST_CAUSES; cause = cause.getCause()) {
      String message = StackText.shortened(String.valueOf(cause.getMessage()));
      causes.addObject().put("type", cause.getClass().getName()).put("message", message);
    }
  }

  /**
   * From now on {@code query}, which triggers at this interval, gets no more rows. With {@code levelMillis} above 0 it
   * then reads on to where {@link #readTo} says. The batch in progress runs to its end. Below 0: no level is given.
   */
  public static void quiesce(StreamingQuery query, long levelMillis, long intervalMillis) {
    QuiesceOrders.give(query.runId(), level(levelMillis), TimeUnit.MILLISECONDS.toNanos(intervalMillis));
  }

  /** The same order to the query that this task starts next. It stands before the query's first batch. */
  public static void quiesceFromStart(String task, long levelMillis, long intervalMillis) {
    QuiesceOrders.giveAtStart(task, level(levelMillis), TimeUnit.MILLISECONDS.toNanos(intervalMillis));
  }

  /**
   * {@code query}, if it is still under the order to {@code levelMillis}, reads to these offsets and no further:
   * {@code {"topic":{"0":123}}}. A partition that is not named is not read.
   */
  public static void readTo(StreamingQuery query, long levelMillis, String cuts) {
    QuiesceOrders.readTo(query.runId(), levelMillis, cuts);
  }

  /** From now on {@code query} gets rows again. */
  public static void release(StreamingQuery query) {
    QuiesceOrders.release(query.runId());
  }

  private static OptionalLong level(long millis) {
    return millis >= 0 ? OptionalLong.of(millis) : OptionalLong.empty();
  }

  /**
   * Stops a query at the end of its batch. If the batch lasts longer than {@code patienceMillis}, interrupts the batch.
   * Penstock's source gives the query no new rows meanwhile, so even a busy query becomes idle after its batch. Returns
   * whether the query has ended; if not, {@link #end} tries again.
   */
  public static boolean stop(StreamingQuery query, long patienceMillis) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMillis);
    QuiesceOrders.stop(query.runId());
    while (query.isActive() && query.status().isTriggerActive() && System.nanoTime() < deadline) {
      Thread.sleep(STOP_POLL_MILLIS);
    }
    return end(query);
  }

  /**
   * Cancels the jobs of a query, interrupts its thread, and waits for its end for {@code spark.sql.streaming.stopTimeout}.
   * Returns whether it has ended.
   */
  public static boolean end(StreamingQuery query) {
    try {
      query.stop();
    } catch (TimeoutException late) {
      return false;
    }
    forgetRun(query);
    return true;
  }

  private static void forgetRun(StreamingQuery query) {
    QuiesceOrders.release(query.runId());
    LoadedStores.release(query.runId());
  }

  /** What the thread of a query does at present: its stack, the innermost call first. */
  public static String stackOf(StreamingQuery query) {
    return Arrays.stream(RunningQuery.stackOf(query)).limit(MOST_FRAMES).map(StackTraceElement::toString)
        .collect(Collectors.joining(" < "));
  }

  /** This thread begins to start the query of a task. {@link #interruptStart} may interrupt it until {@link #started}. */
  public static void starts(SparkContext context, String task) {
    context.setJobGroup(startGroup(task), "start of " + task, true);
    synchronized (STARTS) {
      STARTS.put(task, Thread.currentThread());
    }
  }

  /** The start has ended, well or not. */
  public static void started(SparkContext context, String task) {
    synchronized (STARTS) {
      STARTS.remove(task);
      Thread.interrupted();
    }
    context.clearJobGroup();
  }

  /** Interrupts the start of a task and cancels its jobs. Returns whether one was under way. */
  public static boolean interruptStart(SparkContext context, String task) {
    synchronized (STARTS) {
      Thread starting = STARTS.get(task);
      if (starting == null) {
        return false;
      }
      context.cancelJobGroup(startGroup(task));
      starting.interrupt();
      return true;
    }
  }

  private static String startGroup(String task) {
    return "start of " + task;
  }
}
