package io.penstock.spark42;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stores on the heap that were loaded before the query that uses them starts.
 *
 * <p>Whoever starts the query says that its checkpoint still has the files that were loaded ({@link #allow}), from which
 * copy they are, and with which token it owns the checkpoint. Only stores of that owner get the rows, once, as they
 * begin to load. Otherwise Spark loads the files, as it always does. Tasks of other jobs need the heap, too: rows take
 * at most half of what is free, are not loaded into a heap that is used for the most part, and are given up when it
 * gets short ({@link #dropIfShort}).
 */
public final class PreloadedStores {
  private static final Logger LOG = LoggerFactory.getLogger(PreloadedStores.class);
  private static final String TOKEN = "penstock.fence.token";
  static final double MOST_OF_FREE = 0.5;
  static final double MOST_USED = 0.6;
  static final double SHORT = 0.75;

  private static final Map<String, Kept> BY_FOLDER = new ConcurrentHashMap<>();
  private static final Map<String, Owner> OWNERS = new ConcurrentHashMap<>();
  /** What may be loaded: the copy by checkpoint. */
  private static final Map<String, String> COPIES = new ConcurrentHashMap<>();
  private static long usedWithoutRows;

  private PreloadedStores() {}

  /** Who may have the rows of a checkpoint, of which copy, and the version of its stores with which the query begins. */
  private record Owner(String copy, String token, long first) {}

  /** The rows of a store, from which copy of the state they are, and about how many bytes they take. */
  private record Kept(String copy, HeapRows rows, long bytes) {}

  /** What is loaded for the checkpoint from now on is from this copy; what there was is given up. */
  public static synchronized void begin(String checkpoint, String copy) {
    drop(checkpoint);
    COPIES.put(checkpoint, copy);
  }

  /**
   * Loads a store of the checkpoint, unless the heap has no room for rows of about {@code bytes}, or the checkpoint was
   * given up. Returns their real number of bytes; 0 when they were not loaded. Throws what {@code loading} throws.
   */
  public static long load(String checkpoint, String folder, long bytes, Supplier<HeapRows> loading) {
    String copy = COPIES.get(checkpoint);
    if (copy == null || !hasRoomFor(bytes)) {
      return 0;
    }
    HeapRows rows = loading.get();
    return keep(checkpoint, folder, new Kept(copy, rows, rows.bytes()));
  }

  private static synchronized long keep(String checkpoint, String folder, Kept kept) {
    if (!kept.copy().equals(COPIES.get(checkpoint)) || !hasRoomFor(kept.bytes())) {
      return 0;
    }
    BY_FOLDER.put(folder, kept);
    return kept.bytes();
  }

  /** What was just loaded is perhaps in no collection yet, so it is counted by itself. */
  private static synchronized boolean hasRoomFor(long bytes) {
    long used = used();
    long kept = BY_FOLDER.values().stream().mapToLong(Kept::bytes).sum();
    usedWithoutRows = kept == 0 ? used : usedWithoutRows;
    return fits(bytes, Math.max(used, usedWithoutRows + kept), Runtime.getRuntime().maxMemory());
  }

  static boolean fits(long bytes, long used, long most) {
    return bytes <= MOST_OF_FREE * (most - used) && (double) used + bytes <= MOST_USED * most;
  }

  /** Gives up all rows that nobody has taken when the heap is short; whether it is. */
  public static boolean dropIfShort() {
    return !BY_FOLDER.isEmpty() && dropIfShort(used(), Runtime.getRuntime().maxMemory());
  }

  static synchronized boolean dropIfShort(long used, long most) {
    boolean isShort = used > SHORT * most;
    if (isShort) {
      COPIES.clear();
      OWNERS.clear();
      BY_FOLDER.clear();
    }
    return isShort;
  }

  /** What is old and not yet collected counts as used: too little is loaded rather than too much. */
  private static long used() {
    return ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == MemoryType.HEAP)
        .map(pool -> isOld(pool) ? pool.getUsage() : pool.getCollectionUsage())
        .mapToLong(MemoryUsage::getUsed)
        .sum();
  }

  private static boolean isOld(MemoryPoolMXBean pool) {
    return pool.getCollectionUsage() == null || pool.getName().matches(".*(Old|Tenured) Gen");
  }

  /**
   * The query that is about to start in {@code checkpoint}, which it owns with {@code token}, may have the stores that
   * were loaded from this copy.
   */
  public static void allow(String checkpoint, String copy, String token, long first) {
    OWNERS.put(checkpoint, new Owner(copy, token, first));
  }

  /** Gives up what nobody has taken of a checkpoint, and what is being loaded. */
  public static synchronized void drop(String checkpoint) {
    COPIES.remove(checkpoint);
    OWNERS.remove(checkpoint);
    BY_FOLDER.keySet().removeIf(folder -> folder.startsWith(checkpoint + "/"));
  }

  /** How many stores are loaded and not taken. */
  public static int size() {
    return BY_FOLDER.size();
  }

  /** A store of the query with these settings begins to load its files, which are in {@code folder}. */
  public static void begins(Path folder, Configuration settings) {
    if (BY_FOLDER.isEmpty() || settings.get(StreamExecution.RUN_ID_KEY()) == null) {
      return;
    }
    String token = settings.get(TOKEN, "");
    OWNERS.forEach((checkpoint, owner) -> {
      if (owner.token().equals(token) && folder.toString().startsWith(checkpoint + "/")) {
        Optional.ofNullable(BY_FOLDER.remove(folder.toString()))
            .filter(kept -> kept.copy().equals(owner.copy()))
            .ifPresent(kept ->
                give(kept.rows(), folder, UUID.fromString(settings.get(StreamExecution.RUN_ID_KEY())), owner));
      }
    });
  }

  private static void give(HeapRows rows, Path folder, UUID run, Owner owner) {
    LoadedStores.ofRun(run).stream()
        .filter(store -> store._1().storeId().storeCheckpointLocation().equals(folder))
        .filter(store -> store._2() instanceof HDFSBackedStateStoreProvider)
        .forEach(store -> {
          try {
            rows.giveTo((HDFSBackedStateStoreProvider) store._2(), owner.first());
          } catch (RuntimeException error) {
            LOG.warn("{} is loaded again", folder, error);
          }
        });
  }
}
