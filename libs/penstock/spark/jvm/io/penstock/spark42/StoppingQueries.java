package io.penstock.spark42;

import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/** Runs of queries that are about to be stopped. Penstock's source gives them no more rows. */
public final class StoppingQueries {
  private static final Set<UUID> RUN_IDS = ConcurrentHashMap.newKeySet();

  private StoppingQueries() {}

  /** After this call no new batch of the run has rows. The batch in progress runs to its end. */
  public static void add(UUID runId) {
    RUN_IDS.add(runId);
  }

  public static void remove(UUID runId) {
    RUN_IDS.remove(runId);
  }

  static boolean contains(UUID runId) {
    return RUN_IDS.contains(runId);
  }
}
