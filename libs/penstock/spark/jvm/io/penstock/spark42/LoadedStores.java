package io.penstock.spark42;

import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Option;
import scala.Tuple2;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/** The state stores that Spark has loaded in this JVM. */
public final class LoadedStores {
  static final SparkField LOADED = new SparkField(StateStore$.class, "loadedProviders");

  private LoadedStores() {}

  /**
   * Gives back the heap of all stores on the heap of a run that has ended. Spark does so at its next maintenance, up to a
   * minute later; a restarted task would need the memory of its state twice until then. A Spark task of the run that
   * still works keeps what it has, and what it loads anew is left to the maintenance.
   */
  public static void release(UUID runId) {
    for (Tuple2<StateStoreProviderId, StateStoreProvider> store : ofRun(runId)) {
      if (store._2() instanceof HDFSBackedStateStoreProvider) {
        StateStore$.MODULE$.removeFromLoadedProvidersAndClose(store._1(), Option.empty());
      }
    }
  }

  /** Ids and stores of a run. */
  static List<Tuple2<StateStoreProviderId, StateStoreProvider>> ofRun(UUID runId) {
    @SuppressWarnings("unchecked")
    var loaded = (HashMap<StateStoreProviderId, StateStoreProvider>) LOADED.get(StateStore$.MODULE$);
    synchronized (loaded) {
      return CollectionConverters.asJava(loaded.toList()).stream()
          .filter(store -> store._1().queryRunId().equals(runId)).toList();
    }
  }
}
