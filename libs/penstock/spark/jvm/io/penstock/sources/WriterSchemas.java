package io.penstock.sources;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntFunction;

/**
 * The writers' schemas that one run of a task has met, by id. What the registry said of an id holds for the whole batch:
 * the query and the dead-letter topic must not take one record for two things.
 */
public final class WriterSchemas<S> {
  private static final int MOST_RUNS = 4_096;
  private static final RecentlyUsed<String, WriterSchemas<?>> RUNS = new RecentlyUsed<>(MOST_RUNS);

  private final Map<Integer, Optional<S>> known = new ConcurrentHashMap<>();
  private final Map<Integer, UnreadableValueException> ofOtherKinds = new ConcurrentHashMap<>();

  private WriterSchemas() {}

  /** Those of a run, in this JVM: each of Spark's tasks has decoders of its own. All schemas of a run are of one kind. */
  @SuppressWarnings("unchecked")
  public static <S> WriterSchemas<S> of(String run) {
    return (WriterSchemas<S>) RUNS.get(run, name -> new WriterSchemas<S>());
  }

  /**
   * Asks the registry for an id that is new to the run. Throws UnreadableValueException for an id that it does not have,
   * and what {@code registry} throws.
   */
  public S schema(int id, IntFunction<Optional<S>> registry) {
    Optional<S> found = known.get(id);
    return (found != null ? found : ask(id, registry)).orElseThrow(
        () -> new UnreadableValueException("the schema registry has no schema " + Integer.toUnsignedString(id)));
  }

  private synchronized Optional<S> ask(int id, IntFunction<Optional<S>> registry) {
    Optional<S> found = known.get(id);
    if (found != null) {
      return found;
    }
    if (ofOtherKinds.containsKey(id)) {
      throw ofOtherKinds.get(id);
    }
    try {
      found = registry.apply(id);
    } catch (UnreadableValueException otherKind) {
      ofOtherKinds.put(id, otherKind);
      throw otherKind;
    }
    known.put(id, found);
    return found;
  }

  /** Ids that were unknown are asked for again. To be called between two batches. */
  public void forgetUnknown() {
    known.values().removeIf(Optional::isEmpty);
  }
}
