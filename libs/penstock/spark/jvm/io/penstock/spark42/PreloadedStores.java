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
import org.apache.hadoop.fs.FSDataInputStream;
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
 * gets short ({@link #dropIfShort}), also while they are being loaded: each file is read through {@link #watched}.
 */
public final class PreloadedStores {
  private static final Logger LOG = LoggerFactory.getLogger(PreloadedStores.class);
  private static final String TOKEN = "penstock.fence.token";
  private static final String CHECKPOINT = "penstock.preload.checkpoint";
  private static final String COPY = "penstock.preload.copy";
  static final double MOST_OF_FREE = 0.5;
  static final double MOST_USED = 0.6;
  static final double SHORT = 0.75;

  private static final Map<String, Kept> BY_FOLDER = new ConcurrentHashMap<>();
  private static final Map<String, Owner> OWNERS = new ConcurrentHashMap<>();
  /** What may be loaded: the copy by checkpoint. */
  private static final Map<String, String> COPIES = new ConcurrentHashMap<>();
  private static final UncountedBytes UNCOUNTED = new UncountedBytes();

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
   * Loads a store of the checkpoint, unless the heap has no room for rows of about {@code bytes}. Returns their real
   * number of bytes; 0 when they were not loaded, or given up meanwhile. Throws what {@code loading} throws.
   */
  public static long load(String checkpoint, String folder, long bytes, Supplier<HeapRows> loading) {
    String copy = COPIES.get(checkpoint);
    if (copy == null || !UNCOUNTED.reserve(bytes, PreloadedStores::fits)) {
      return 0;
    }
    Kept kept;
    try {
      HeapRows rows = loading.get();
      kept = new Kept(copy, rows, rows.bytes());
    } catch (Exception error) {
      // Spark also throws what no signature declares.
      if (isWanted(checkpoint, copy)) {
        throw error;
      }
      LOG.info("{} is not loaded ahead any more: {}", folder, error.toString());
      return 0;
    } finally {
      UNCOUNTED.release(bytes);
    }
    return keep(checkpoint, folder, kept);
  }

  private static synchronized long keep(String checkpoint, String folder, Kept kept) {
    boolean hasRoom = UNCOUNTED.add(kept.bytes(), PreloadedStores::fits);
    if (!hasRoom || !isWanted(checkpoint, kept.copy())) {
      return 0;
    }
    BY_FOLDER.put(folder, kept);
    return kept.bytes();
  }

  private static boolean isWanted(String checkpoint, String copy) {
    return copy.equals(COPIES.get(checkpoint));
  }

  /** Settings with which files are opened to load them ahead. */
  public static void watch(Configuration settings, String checkpoint, String copy) {
    settings.set(CHECKPOINT, checkpoint);
    settings.set(COPY, copy);
  }

  /**
   * With such settings a stream whose reads fail once the checkpoint was given up, and that looks at the heap as it is
   * read. With others the same stream.
   */
  public static FSDataInputStream watched(FSDataInputStream stream, Configuration settings) {
    String checkpoint = settings.get(CHECKPOINT);
    String copy = settings.get(COPY);
    return checkpoint == null ? stream : new FSDataInputStream(
        new WatchedStream(stream, () -> goesOn(checkpoint, copy, used(), most())));
  }

  static boolean goesOn(String checkpoint, String copy, long used, long most) {
    return !dropIfShort(used, most) && isWanted(checkpoint, copy);
  }

  private static boolean fits(long bytes, long uncounted) {
    return fits(bytes, used() + uncounted, most());
  }

  private static long most() {
    return Runtime.getRuntime().maxMemory();
  }

  static boolean fits(long bytes, long used, long most) {
    return bytes <= MOST_OF_FREE * (most - used) && (double) used + bytes <= MOST_USED * most;
  }

  /** Gives up all rows that nobody has taken when the heap is short; whether it is. */
  public static boolean dropIfShort() {
    return !BY_FOLDER.isEmpty() && dropIfShort(used(), most());
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
