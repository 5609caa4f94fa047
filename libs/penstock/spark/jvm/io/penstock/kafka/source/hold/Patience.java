package io.penstock.kafka.source.hold;

import io.penstock.kafka.marks.ProducerMarks;
import io.penstock.kafka.marks.ProducerMarks.Bound;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How long the same producer has been waited for at the same time, and who is not waited for any more. Such a producer
 * counts again as soon as it says that it has come further. What it says without that, e.g. with rows that are all as old
 * as the ones before, changes neither. The clock is passed in.
 */
public final class Patience {
  private static final Logger LOG = LoggerFactory.getLogger(Patience.class);

  private final OptionalLong limitMillis;
  private final Map<String, Long> given = new LinkedHashMap<>();
  private Bound awaited;
  private long sinceNanos;

  /** {@code limitMillis}: how long a producer that comes no further is waited for; empty for ever. */
  public Patience(OptionalLong limitMillis) {
    this.limitMillis = limitMillis;
  }

  /** Whom the readers wait for now; empty when for nobody. */
  public Optional<Bound> apply(ProducerMarks marks, long nowNanos) {
    given.entrySet().removeIf(gone -> hasMoved(marks, gone.getKey(), gone.getValue()));
    while (true) {
      Optional<Bound> bound = marks.bound(this::isGivenUp);
      if (!bound.map(this::isAwaited).orElse(false)) {
        sinceNanos = nowNanos;
      }
      awaited = bound.orElse(null);
      if (bound.isEmpty() || !bound.get().silent() || limitMillis.isEmpty()
          || waitedMillis(nowNanos) < limitMillis.getAsLong()) {
        return bound;
      }
      LOG.warn("{} has come no further for {} ms and is not waited for any more: rows that it writes later may be late",
          awaited.producer(), waitedMillis(nowNanos));
      given.put(awaited.producer(), awaited.millis());
    }
  }

  public boolean isGivenUp(String producer) {
    return given.containsKey(producer);
  }

  /** Who is not waited for any more, in the order in which that was decided. */
  public List<String> givenUp() {
    return List.copyOf(given.keySet());
  }

  public long waitedMillis(long nowNanos) {
    return awaited == null ? 0 : Duration.ofNanos(nowNanos - sinceNanos).toMillis();
  }

  private boolean isAwaited(Bound bound) {
    return awaited != null && bound.producer().equals(awaited.producer()) && bound.millis() == awaited.millis();
  }

  /** Also while its new rows are not read yet: they are not late before the reader has come to them. */
  private static boolean hasMoved(ProducerMarks marks, String producer, long millis) {
    return marks.bound(name -> !name.equals(producer))
        .filter(bound -> bound.standing() && bound.millis() == millis).isEmpty();
  }
}
