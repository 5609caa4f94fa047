package io.penstock.checkpoint;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The hooks of the tasks of this JVM, by the fence and token that each task's session names. */
public final class BatchHooks {
  private static final Map<String, List<BatchHook>> HOOKS = new ConcurrentHashMap<>();

  private BatchHooks() {}

  /** From now on {@code hook} is told of the queries that publish with this token, after those added before. */
  public static void add(String fence, String token, BatchHook hook) {
    HOOKS.merge(key(fence, token), List.of(hook), (old, more) -> Stream.concat(old.stream(), more.stream()).toList());
  }

  public static void remove(String fence, String token) {
    HOOKS.remove(key(fence, token));
    LoggedFence.forget(fence, token);
  }

  static List<BatchHook> of(Configuration settings) {
    return HOOKS.getOrDefault(key(settings.get(Fence.PATH), settings.get(Fence.TOKEN, "")), List.of());
  }

  /** The log and batch of a file in a log of batches; empty for other files. */
  static Optional<Entry> entryOf(Path root, Path file) {
    String log = root.getName();
    String name = file.getName();
    boolean isBatch = (log.equals("offsets") || log.equals("commits")) && root.equals(file.getParent())
        && !name.isEmpty() && name.chars().allMatch(Character::isDigit);
    return isBatch ? Optional.of(new Entry(log.equals("commits"), Long.parseLong(name))) : Optional.empty();
  }

  record Entry(boolean isCommit, long batch) {}

  private static String key(String fence, String token) {
    return fence + "#" + token;
  }
}
