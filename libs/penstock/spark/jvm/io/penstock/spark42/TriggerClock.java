package io.penstock.spark42;

import java.util.function.BooleanSupplier;
import org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor;
import org.apache.spark.sql.execution.streaming.runtime.TriggerExecutor;
import org.apache.spark.util.SystemClock;

/**
 * The clock of a query's triggers. A query that reads on to its cuts does not wait for the time of its next trigger.
 *
 * <p>Spark's own clock sleeps until that time, and nothing but the end of the query wakes it.
 */
final class TriggerClock extends SystemClock {
  static final SparkField CLOCK = new SparkField(ProcessingTimeExecutor.class, "clock");

  private final BooleanSupplier readsOn;

  TriggerClock(BooleanSupplier readsOn) {
    this.readsOn = readsOn;
  }

  /**
   * Gives {@code triggers} this clock from its next wait on; not those without an interval, which never wait. To be
   * called by the query's own thread. Raises IllegalStateException when Spark's triggers have no such clock.
   */
  void install(TriggerExecutor triggers) {
    if (triggers instanceof ProcessingTimeExecutor) {
      CLOCK.set(triggers, this);
    }
  }

  @Override
  public long waitTillTime(long targetMillis) {
    try {
      QuiesceOrders.await(readsOn, () -> targetMillis - getTimeMillis());
    } catch (InterruptedException stopped) {
      TriggerClock.<RuntimeException>raise(stopped);
    }
    return getTimeMillis();
  }

  /** By the interruption itself Spark knows that the query was stopped. Its interface, in Scala, declares none. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void raise(Throwable error) throws E {
    throw (E) error;
  }
}
