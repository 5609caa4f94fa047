package io.penstock.sources;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/** What is made once for each key and kept while the key is among the last that were asked for. For many threads. */
public final class RecentlyUsed<K, V> {
  private final Map<K, V> kept;

  public RecentlyUsed(int most) {
    kept = new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > most;
      }
    };
  }

  /** The value of a key, made by {@code make} where there is none. What it throws is thrown, and nothing is kept. */
  public synchronized V get(K key, Function<? super K, ? extends V> make) {
    return kept.computeIfAbsent(key, make);
  }
}
