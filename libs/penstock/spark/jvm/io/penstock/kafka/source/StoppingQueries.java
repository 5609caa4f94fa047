package io.penstock.kafka.source;

import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/** Queries that are about to be stopped: they get no more rows, so that they come to rest between two batches. */
public final class StoppingQueries {
  private static final Set<UUID> RUNS = ConcurrentHashMap.newKeySet();

  private StoppingQueries() {}

  /** From now on no batch of this run has new rows. The batch in progress is not touched. */
  public static void add(UUID runId) {
    RUNS.add(runId);
  }

  public static void remove(UUID runId) {
    RUNS.remove(runId);
  }

  static boolean has(UUID runId) {
    return RUNS.contains(runId);
  }
}
