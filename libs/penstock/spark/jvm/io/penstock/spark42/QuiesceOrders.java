package io.penstock.spark42;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/** The orders to the queries of this driver to take no more rows. A query without one reads on. */
public final class QuiesceOrders {
  private static final Map<UUID, QuiesceOrder> OF_RUN = new ConcurrentHashMap<>();
  private static final Map<String, QuiesceOrder> AT_START = new ConcurrentHashMap<>();
  private static final Object CHANGED = new Object();

  private QuiesceOrders() {}

  /** The order to a run. The same order given again stays as it is. */
  public static void give(UUID run, OptionalLong levelMillis, long intervalNanos) {
    OF_RUN.compute(run, (id, known) -> known != null && known.levelMillis().equals(levelMillis)
        ? known : QuiesceOrder.at(levelMillis, intervalNanos, System.nanoTime()));
  }

  /** Where a run may read to, by its order to this level. Nothing happens when it has got another order since. */
  public static void readTo(UUID run, long levelMillis, String cuts) {
    OF_RUN.computeIfPresent(run, (id, known) -> known.levelMillis().equals(OptionalLong.of(levelMillis))
        ? known.withCuts(cuts) : known);
    tellWaiting();
  }

  private static void tellWaiting() {
    synchronized (CHANGED) {
      CHANGED.notifyAll();
    }
  }

  /**
   * Returns once no milliseconds are left, or {@code isEnough}: that is asked at once, when cuts were given, and when an
   * order is over.
   */
  static void await(BooleanSupplier isEnough, LongSupplier leftMillis) throws InterruptedException {
    synchronized (CHANGED) {
      while (!isEnough.getAsBoolean()) {
        long left = leftMillis.getAsLong();
        if (left <= 0) {
          return;
        }
        CHANGED.wait(left);
      }
    }
  }

  /** The order to the query that starts next under this name, until {@link #hasStarted}; before its first batch. */
  public static void giveAtStart(String name, OptionalLong levelMillis, long intervalNanos) {
    AT_START.put(name, QuiesceOrder.at(levelMillis, intervalNanos, System.nanoTime()));
  }

  /** From now on the order at the start is that to this run. */
  public static void hasStarted(String name, UUID run) {
    QuiesceOrder order = AT_START.get(name);
    if (order != null) {
      OF_RUN.putIfAbsent(run, order);
      AT_START.remove(name, order);
    }
  }

  /** No query of this name starts any more. */
  public static void forgetStart(String name) {
    AT_START.remove(name);
  }

  /** The run is about to be stopped: it reads nothing more. */
  public static void stop(UUID run) {
    OF_RUN.compute(run, (id, known) ->
        (known == null ? QuiesceOrder.at(OptionalLong.empty(), 0, System.nanoTime()) : known).forStop());
  }

  /** The order is over: the run reads on, or has ended. */
  public static void release(UUID run) {
    OF_RUN.remove(run);
    tellWaiting();
  }

  /** Looks where the order was before it looks where {@link #hasStarted} puts it, so that it misses none on its way. */
  static Optional<QuiesceOrder> of(UUID run, String name) {
    Optional<QuiesceOrder> atStart = Optional.ofNullable(name).map(AT_START::get);
    return Optional.ofNullable(OF_RUN.get(run)).or(() -> atStart);
  }
}
