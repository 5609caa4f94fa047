package io.penstock.kafka.source.hold;

import io.penstock.kafka.marks.MarksTopic;
import io.penstock.kafka.marks.ProducerMarks;
import io.penstock.kafka.marks.ProducerMarks.Bound;
import io.penstock.kafka.source.broker.KafkaLogs;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/**
 * Holds the watermark of a query back until all producers of an input have come as far. Only the query's thread changes
 * it; any thread may ask for {@code producersMillis}.
 */
public final class ProducerHold implements AutoCloseable {
  private static final int MOST_NAMED = 5;
  /** Where there is a topic of marks, there are producers that will say how far they have come. */
  private static final OptionalLong NO_ROW_YET = OptionalLong.of(0);

  private final KafkaLogs logs;
  private final MarksTopic topic;
  private final long delayMillis;
  private final ProducerMarks marks = new ProducerMarks();
  private final Patience patience;
  private Map<Integer, Long> read = Map.of();
  private boolean fresh;
  private Optional<Bound> bound = Optional.empty();
  private Optional<Bound> idleBound = Optional.empty();
  private List<String> withoutTime = List.of();
  private volatile OptionalLong producersMillis = OptionalLong.empty();
  private volatile boolean atEnd = true;

  /** {@code patienceMillis}: how long a producer that comes no further is waited for; empty for ever. */
  public ProducerHold(KafkaLogs logs, MarksTopic topic, long delayMillis, OptionalLong patienceMillis) {
    this.logs = logs;
    this.topic = topic;
    this.delayMillis = delayMillis;
    this.patience = new Patience(patienceMillis);
  }

  /** The batch in progress reads up to these offsets. */
  public void batchEndsAt(Map<TopicPartition, Long> ends) {
    read = ends.entrySet().stream()
        .collect(Collectors.toMap(end -> end.getKey().partition(), Map.Entry::getValue));
    fresh = false;
  }

  /** Reads the marks that came since the last call, if there were any before. */
  public void follow() {
    if (topic.isOpen()) {
      readOn();
    }
  }

  private void readOn() {
    marks.setHidden(logs.timed(() -> {
      topic.readOn(marks::add);
      return marks.isEmpty() && topic.hidesMarks();
    }));
    fresh = true;
    marks.advance(read);
    bound = patience.apply(marks, System.nanoTime());
    idleBound = marks.boundWhenIdle(patience::isGivenUp);
    atEnd = idleBound.isEmpty();
    withoutTime = marks.withoutTime();
    producersMillis = marks.isEmpty()
        ? (topic.isOpen() ? NO_ROW_YET : OptionalLong.empty())
        : bound.map(Bound::millis).map(OptionalLong::of).orElse(marks.latestMillis());
  }

  /**
   * The watermark that is safe after the batch in progress: no unread row and no row to come is late against it, unless
   * it is late among the rows of its own producer. The marks must be read after the batch's ends were chosen, so that no
   * producer of a row in it is unknown.
   */
  public long watermarkBound() {
    if (!fresh) {
      readOn();
    }
    return lessDelay(bound);
  }

  /** The latest watermark for a query without rows to read: producers that are idle too do not hold it back. */
  public long idleWatermarkBound() {
    return lessDelay(idleBound);
  }

  /** Whether all producers had read all their own inputs. */
  public boolean isAtEnd() {
    return atEnd;
  }

  private long lessDelay(Optional<Bound> least) {
    if (least.isEmpty()) {
      return Long.MAX_VALUE;
    }
    long millis = least.get().millis();
    return millis == ProducerMarks.NOTHING_YET ? millis : millis - delayMillis;
  }

  /** Empty when no producer of the input is known, or none has an event time. */
  public OptionalLong producersMillis() {
    return producersMillis;
  }

  /**
   * Adds who is not awaited any more, or never was; and who is, and for how long, if {@code ofRows} had to be held back.
   */
  public void report(Map<String, String> metrics, long ofRows) {
    if (!withoutTime.isEmpty()) {
      metrics.put("withoutTime", String.join(", ", withoutTime.subList(0, Math.min(MOST_NAMED, withoutTime.size()))));
    }
    if (!patience.givenUp().isEmpty()) {
      metrics.put("notAwaited", String.join(", ", patience.givenUp()));
    }
    if (bound.isPresent() && bound.get().standing() && watermarkBound() < ofRows) {
      metrics.put("heldBackBy", bound.get().producer());
      metrics.put("heldBackMillis", Long.toString(patience.waitedMillis(System.nanoTime())));
    }
  }

  @Override
  public void close() {
    topic.close();
  }
}
