package io.penstock.checkpoint;

import java.io.IOException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.commons.io.function.IORunnable;
import org.apache.hadoop.fs.Path;

/**
 * The fence by a {@link FenceLog}. Plans and commits of batches are published in the log. Other files, such as state,
 * are written after a look at it: a late one is of a batch that was planned before the newer claim.
 */
final class LoggedFence implements Fence {
  private static final ConcurrentMap<String, Owner> OWNERS = new ConcurrentHashMap<>();
  private static final long UNKNOWN = -1;

  private final FenceLog log;
  private final String token;
  private final Owner owner;

  LoggedFence(FenceLog log, Path fence, String token) {
    this.log = log;
    this.token = token;
    owner = OWNERS.computeIfAbsent(fence + "#" + token, key -> new Owner());
  }

  /** What this JVM knows of one owner's slots: the newest one, which only this owner or a newer one can follow. */
  private static final class Owner {
    private long last = UNKNOWN;
    private boolean lastIsOwn;
  }

  static void forget(String fence, String token) {
    OWNERS.remove(new Path(fence) + "#" + token);
  }

  @Override
  public void guard(IORunnable publish) throws IOException {
    synchronized (owner) {
      if (owner.last == UNKNOWN || log.last() != owner.last) {
        remember(log.requireNewest(token), false);
      }
    }
    publish.run();
  }

  @Override
  public boolean publishes(Path file) {
    return log.isEntry(file);
  }

  @Override
  public void publish(Path file, byte[] content) throws IOException {
    synchronized (owner) {
      if (owner.last == UNKNOWN) {
        remember(log.requireNewest(token), false);
      }
      long before = owner.last;
      boolean beforeIsOwn = owner.lastIsOwn;
      // Whether it is in the log is unknown until this returns.
      remember(UNKNOWN, false);
      log.publish(before + 1, token, file, content);
      if (beforeIsOwn) {
        log.forget(before);
      }
      remember(before + 1, true);
    }
  }

  private void remember(long last, boolean isOwn) {
    owner.last = last;
    owner.lastIsOwn = isOwn;
  }
}
