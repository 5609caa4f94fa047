package io.penstock.spark42;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.TreeMap;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreMap;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.util.SizeEstimator;
import scala.Option;

/** All rows of one version of a store on the heap, as Spark keeps them. Handed over, they must not be used again. */
public final class HeapRows {
  static final String LOADED =
      "org$apache$spark$sql$execution$streaming$state$HDFSBackedStateStoreProvider$$loadedMaps";
  static final String NEW_MAP =
      "org$apache$spark$sql$execution$streaming$state$HDFSBackedStateStoreProvider$$createHDFSBackedStateStoreMap";
  static final String CHANGES = "updateFromDeltaFile";

  private final long version;
  private final HDFSBackedStateStoreMap rows;

  private HeapRows(long version, HDFSBackedStateStoreMap rows) {
    this.version = version;
    this.rows = rows;
  }

  /** Loads a version by a provider, which the caller closes. */
  public static HeapRows load(HDFSBackedStateStoreProvider provider, long version) {
    provider.getReadStore(version, Option.empty()).abort();
    return new HeapRows(version, loadedBy(provider).get(version));
  }

  /** About how many bytes of the heap the rows take. */
  public long bytes() {
    return SizeEstimator.estimate(rows);
  }

  /**
   * Gives the rows to the provider of a query, brought up to its {@code first} version by the store's own files of
   * changes. Nothing is given when the rows are of another kind or a later version. The provider may be in use.
   *
   * <p>Throws what reading the changes throws; the provider is as it was then.
   */
  public void giveTo(HDFSBackedStateStoreProvider provider, long first) {
    synchronized (provider) {
      if (version > first || loadedBy(provider).containsKey(first)
          || !rows.getClass().equals(call(provider, method(NEW_MAP)).getClass())) {
        return;
      }
      for (long changed = version + 1; changed <= first; changed++) {
        call(provider, method(CHANGES, long.class, HDFSBackedStateStoreMap.class), changed, rows);
      }
      loadedBy(provider).put(first, rows);
    }
  }

  @SuppressWarnings("unchecked")
  private static TreeMap<Object, HDFSBackedStateStoreMap> loadedBy(HDFSBackedStateStoreProvider provider) {
    return (TreeMap<Object, HDFSBackedStateStoreMap>) call(provider, method(LOADED));
  }

  /** Raises IllegalStateException when Spark has no such method. */
  static Method method(String name, Class<?>... parameters) {
    try {
      Method found = HDFSBackedStateStoreProvider.class.getDeclaredMethod(name, parameters);
      found.setAccessible(true);
      return found;
    } catch (NoSuchMethodException error) {
      throw new IllegalStateException("Spark's store on the heap has no " + name, error);
    }
  }

  private static Object call(HDFSBackedStateStoreProvider provider, Method method, Object... arguments) {
    try {
      return method.invoke(provider, arguments);
    } catch (InvocationTargetException error) {
      throw new IllegalStateException(error.getCause());
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }
}
