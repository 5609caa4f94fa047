package io.penstock.spark42;

import java.lang.reflect.Field;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor;
import org.apache.spark.sql.execution.streaming.runtime.TriggerExecutor;
import org.apache.spark.util.Clock;
import org.apache.spark.util.SystemClock;

/**
 * The clock of a query's triggers. A query that reads on to its cuts does not wait for the time of its next trigger.
 *
 * <p>Spark's own clock sleeps until that time, and nothing but the end of the query wakes it.
 */
final class TriggerClock implements Clock {
  private final Clock spark = new SystemClock();
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
      try {
        clockOf(ProcessingTimeExecutor.class).set(triggers, this);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException("Spark's triggers have no clock that can be set", error);
      }
    }
  }

  static Field clockOf(Class<?> triggers) throws NoSuchFieldException {
    Field field = triggers.getDeclaredField("clock");
    field.setAccessible(true);
    return field;
  }

  @Override
  public long getTimeMillis() {
    return spark.getTimeMillis();
  }

  @Override
  public long nanoTime() {
    return spark.nanoTime();
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
