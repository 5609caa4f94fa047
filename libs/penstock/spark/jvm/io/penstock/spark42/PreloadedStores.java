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
 * <p>Whoever starts the query says that its checkpoint still has the files that were loaded ({@link #allow}), and with
 * which token it owns the checkpoint. Only stores of that owner get the rows, once, as they begin to load. Otherwise
 * Spark loads the files, as it always does.
 */
public final class PreloadedStores {
  private static final Logger LOG = LoggerFactory.getLogger(PreloadedStores.class);
  private static final String TOKEN = "penstock.fence.token";
  private static final double MOST_HEAP = 0.8;

  private static final Map<String, HeapRows> BY_FOLDER = new ConcurrentHashMap<>();
  private static final Map<String, Owner> OWNERS = new ConcurrentHashMap<>();

  private PreloadedStores() {}

  /** Who may have the rows of a checkpoint, and the version of its stores with which the query begins. */
  private record Owner(String token, long first) {}

  /**
   * Loads a store of the checkpoint, unless the heap has no room for rows of about {@code bytes}. Returns their real
   * number of bytes; 0 when they were not loaded.
   */
  public static long load(String folder, long bytes, Supplier<HeapRows> loading) {
    if (!hasRoomFor(bytes)) {
      return 0;
    }
    HeapRows rows = loading.get();
    BY_FOLDER.put(folder, rows);
    return rows.bytes();
  }

  /** What is old and not yet collected counts as used: too little is loaded rather than too much. */
  private static boolean hasRoomFor(long bytes) {
    long used = ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == MemoryType.HEAP)
        .map(pool -> isOld(pool) ? pool.getUsage() : pool.getCollectionUsage())
        .mapToLong(MemoryUsage::getUsed)
        .sum();
    return (double) used + bytes <= MOST_HEAP * Runtime.getRuntime().maxMemory();
  }

  private static boolean isOld(MemoryPoolMXBean pool) {
    return pool.getCollectionUsage() == null || pool.getName().matches(".*(Old|Tenured) Gen");
  }

  /** The query that is about to start in {@code checkpoint}, which it owns with {@code token}, may have its stores. */
  public static void allow(String checkpoint, String token, long first) {
    OWNERS.put(checkpoint, new Owner(token, first));
  }

  /** Gives up what nobody has taken of a checkpoint. */
  public static void drop(String checkpoint) {
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
            .ifPresent(rows -> give(rows, folder, UUID.fromString(settings.get(StreamExecution.RUN_ID_KEY())), owner));
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
