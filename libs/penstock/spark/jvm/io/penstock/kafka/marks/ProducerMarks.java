package io.penstock.kafka.marks;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * How far in event time the producers of a topic have come, as of what a reader has read. Pure.
 *
 * <p>A mark of a producer counts when the reader has read all rows that the producer wrote before it. Then all rows of
 * the producer that are unread, or not written yet, belong after the mark's time. So the least of these times is a bound
 * below which no row follows, whatever the order of the rows in the partitions.
 */
public final class ProducerMarks {
  /** The bound while a producer is known that has not said how far it has come. */
  public static final long NOTHING_YET = Long.MIN_VALUE;
  /** Stands for producers whose first mark is in a transaction that has not ended. */
  public static final String UNKNOWN = "a producer with an open transaction";

  private static final int KEPT_TIMES = 10_000;

  private final Map<String, TreeMap<Integer, Generation>> groups = new HashMap<>();
  private boolean hidden;
  // The latest time that any producer has come to, by the offset of the mark that says so.
  private final TreeMap<Long, Long> latest = new TreeMap<>();

  /**
   * The producer that all others wait for.
   *
   * @param producer its name
   * @param millis the time that it has come to
   * @param silent the reader has read everything that this producer has said; so it is the producer that is awaited
   * @param standing nothing that it has said brings it further, read or not; true of one that is silent
   */
  public record Bound(String producer, long millis, boolean silent, boolean standing) {}

  /** Adds the mark at {@code offset} of the marks topic, where it follows all that were added before. */
  public void add(long offset, Mark mark) {
    if (mark.ended()) {
      groups.getOrDefault(mark.producer().group(), new TreeMap<>())
          .headMap(mark.producer().generation(), true).values().forEach(Generation::end);
      return;
    }
    TreeMap<Integer, Generation> group = groups.computeIfAbsent(mark.producer().group(), name -> new TreeMap<>());
    Generation generation = group.get(mark.producer().generation());
    if (generation == null) {
      long floor = group.isEmpty() ? NOTHING_YET : group.lastEntry().getValue().leastOfNewest();
      generation = new Generation(mark.producer(), floor);
      group.put(mark.producer().generation(), generation);
    }
    generation.add(mark, worth(mark));
    mark.time().ifPresent(millis -> noteLatest(offset, millis));
  }

  /** Whether the marks of all producers are hidden by a transaction that has not ended: then nobody knows who they are. */
  public void setHidden(boolean hidden) {
    this.hidden = hidden;
  }

  /** The reader has read the partitions up to {@code ends}; partitions that are missing are not its own. */
  public void advance(Map<Integer, Long> ends) {
    for (TreeMap<Integer, Generation> group : groups.values()) {
      group.values().forEach(generation -> generation.advance(ends));
      group.headMap(group.lastKey(), false).values().removeIf(Generation::isRead);
    }
  }

  /** Empty when no producer holds back its readers. Producers for which {@code ignored} holds are left out. */
  public Optional<Bound> bound(Predicate<String> ignored) {
    return least(ignored, member -> true);
  }

  /** The same without the producers that had read all their inputs: they hold back nobody who is idle too. */
  public Optional<Bound> boundWhenIdle(Predicate<String> ignored) {
    return least(ignored, member -> !member.isAtEnd());
  }

  private Optional<Bound> least(Predicate<String> ignored, Predicate<ProducerQueue> asked) {
    Bound least = hidden && !ignored.test(UNKNOWN) ? new Bound(UNKNOWN, NOTHING_YET, true, true) : null;
    for (TreeMap<Integer, Generation> group : groups.values()) {
      int newest = group.lastKey();
      for (Map.Entry<Integer, Generation> entry : group.entrySet()) {
        for (ProducerQueue member : entry.getValue().members) {
          boolean counts = entry.getKey() == newest || !member.isRead();
          if (counts && member.holdsBack() && asked.test(member) && !ignored.test(member.name())
              && (least == null || member.millis() < least.millis())) {
            least = new Bound(member.name(), member.millis(), member.isRead(), member.isStanding());
          }
        }
      }
    }
    return Optional.ofNullable(least);
  }

  /** The producers of the newest generation of each group that know no event time, so that nobody waits for them. */
  public List<String> withoutTime() {
    List<String> found = new ArrayList<>();
    for (TreeMap<Integer, Generation> group : groups.values()) {
      for (ProducerQueue member : group.lastEntry().getValue().members) {
        if (member.knowsNoTime()) {
          found.add(member.name());
        }
      }
    }
    Collections.sort(found);
    return found;
  }

  /** The latest time that any producer says to have come to; empty when none does. */
  public OptionalLong latestMillis() {
    return latest.isEmpty() ? OptionalLong.empty() : OptionalLong.of(latest.lastEntry().getValue());
  }

  /** Whether any producer has written a mark. */
  public boolean isEmpty() {
    return groups.isEmpty();
  }

  /**
   * The time that a mark stands for. A producer that has read all its inputs has come as far as all others had before:
   * what it reads from then on is as new as what they read.
   */
  private long worth(Mark mark) {
    if (mark.time().isEmpty()) {
      return Long.MAX_VALUE;
    }
    long time = mark.time().getAsLong();
    Map.Entry<Long, Long> others = mark.readBefore() == Mark.UNREAD ? null : latest.lowerEntry(mark.readBefore());
    return others == null ? time : Math.max(time, others.getValue());
  }

  private void noteLatest(long offset, long millis) {
    if (latest.isEmpty() || latest.lastEntry().getValue() < millis) {
      latest.put(offset, millis);
    }
    if (latest.size() > KEPT_TIMES) {
      latest.pollFirstEntry();
    }
  }

  /** The producers of a group that write at the same time. */
  private static final class Generation {
    private final ProducerQueue[] members;

    /** {@code floor}: how far the generation before has come, which these producers continue. */
    Generation(Mark.Producer any, long floor) {
      members = new ProducerQueue[any.count()];
      for (int index = 0; index < members.length; index++) {
        var producer = new Mark.Producer(any.group(), any.generation(), index, any.count());
        members[index] = new ProducerQueue(producer.name(), floor);
      }
    }

    void add(Mark mark, long worth) {
      for (ProducerQueue member : members) {
        member.setEnded(false);
      }
      member(mark.producer()).add(mark, worth);
    }

    void end() {
      for (ProducerQueue member : members) {
        member.setEnded(true);
      }
    }

    private ProducerQueue member(Mark.Producer producer) {
      if (producer.index() < 0 || producer.index() >= members.length) {
        throw new IllegalArgumentException(
            "the marks of " + producer.name() + " disagree on the number of producers: " + members.length + " or "
                + producer.count());
      }
      return members[producer.index()];
    }

    void advance(Map<Integer, Long> ends) {
      for (ProducerQueue member : members) {
        member.advance(ends);
      }
    }

    boolean isRead() {
      for (ProducerQueue member : members) {
        if (!member.isRead()) {
          return false;
        }
      }
      return true;
    }

    long leastOfNewest() {
      long least = Long.MAX_VALUE;
      for (ProducerQueue member : members) {
        least = Math.min(least, member.newestMillis());
      }
      return least;
    }
  }
}
