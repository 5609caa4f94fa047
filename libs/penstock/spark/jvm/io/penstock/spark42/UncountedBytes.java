package io.penstock.spark42;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Bytes of the heap that the figures of the collector do not show: those of rows that are being loaded, as was guessed,
 * and those of rows that were loaded since the last collection, whoever has them now.
 */
final class UncountedBytes {
  /** Rows, and how many collections there had been when they were loaded. */
  private record Loaded(long bytes, long collections) {}

  /** Whether bytes have room beside others that are not counted. */
  interface Fits {
    boolean test(long bytes, long uncounted);
  }

  private final Deque<Loaded> loaded = new ArrayDeque<>();
  private long reserved;

  /** Reserves bytes if they have room; whether they do. They are counted until {@link #release}. */
  synchronized boolean reserve(long bytes, Fits fits) {
    boolean hasRoom = fits.test(bytes, reserved + sinceCollection());
    reserved += hasRoom ? bytes : 0;
    return hasRoom;
  }

  synchronized void release(long bytes) {
    reserved -= bytes;
  }

  /** These were just loaded. Returns whether they have room. */
  synchronized boolean add(long bytes, Fits fits) {
    boolean hasRoom = fits.test(bytes, reserved + sinceCollection());
    loaded.add(new Loaded(bytes, collections()));
    return hasRoom;
  }

  private long sinceCollection() {
    long now = collections();
    loaded.removeIf(each -> each.collections() < now);
    return loaded.stream().mapToLong(Loaded::bytes).sum();
  }

  /** What G1 does beside the application does not move what is new. */
  private static long collections() {
    return ManagementFactory.getGarbageCollectorMXBeans().stream()
        .filter(collector -> !collector.getName().contains("Concurrent"))
        .mapToLong(GarbageCollectorMXBean::getCollectionCount)
        .sum();
  }
}
