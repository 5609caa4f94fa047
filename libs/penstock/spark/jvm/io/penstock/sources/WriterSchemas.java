package io.penstock.sources;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;

/**
 * The writers' schemas that one run of a task has met, by id. What the registry said of an id holds for the whole batch:
 * the query and the dead-letter topic must not take one record for two things.
 */
final class WriterSchemas {
  private static final int MOST_RUNS = 4_096;
  private static final Map<String, WriterSchemas> RUNS = new LinkedHashMap<>(16, 0.75f, true) {
    @Override
    protected boolean removeEldestEntry(Map.Entry<String, WriterSchemas> eldest) {
      return size() > MOST_RUNS;
    }
  };

  private final Map<Integer, Optional<Schema>> known = new ConcurrentHashMap<>();
  private final Map<Integer, FrameException> ofOtherKinds = new ConcurrentHashMap<>();

  private WriterSchemas() {}

  /** Those of a run, in this JVM: each of Spark's tasks has decoders of its own. */
  static WriterSchemas of(String run) {
    synchronized (RUNS) {
      return RUNS.computeIfAbsent(run, name -> new WriterSchemas());
    }
  }

  /** Asks the registry for an id that is new to the run. Throws what {@link Registry#schema} throws. */
  Optional<Schema> schema(int id, Registry registry) {
    Optional<Schema> found = known.get(id);
    return found != null ? found : ask(id, registry);
  }

  private synchronized Optional<Schema> ask(int id, Registry registry) {
    Optional<Schema> found = known.get(id);
    if (found != null) {
      return found;
    }
    if (ofOtherKinds.containsKey(id)) {
      throw ofOtherKinds.get(id);
    }
    try {
      found = registry.schema(id);
    } catch (FrameException otherKind) {
      ofOtherKinds.put(id, otherKind);
      throw otherKind;
    }
    known.put(id, found);
    return found;
  }

  /** Ids that were unknown are asked for again. To be called between two batches. */
  void forgetUnknown() {
    known.values().removeIf(Optional::isEmpty);
  }
}
