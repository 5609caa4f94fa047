package io.penstock.kafka.marks;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The marks of one producer: the time of the newest one that counts, and those whose rows are not all read. Pure. */
final class ProducerQueue {
  private static final int MAX_WAITING = 4096;

  private final String name;
  private Deque<Waiting> waiting = new ArrayDeque<>();
  private int marksInOne = 1;
  private long millis;
  private long newestMillis;
  private boolean ended;
  private boolean newestAtEnd;

  private record Waiting(Map<Integer, Long> ends, long millis, int marks) {
    boolean isRead(Map<Integer, Long> read) {
      return ends.entrySet().stream().allMatch(
          end -> read.getOrDefault(end.getKey(), Long.MAX_VALUE) >= end.getValue());
    }

    /** One that counts when both do. */
    Waiting and(Waiting later) {
      Map<Integer, Long> both = new HashMap<>(ends);
      both.putAll(later.ends);
      return new Waiting(both, later.millis, marks + later.marks);
    }
  }

  /** {@code floor}: the time before the first mark. */
  ProducerQueue(String name, long floor) {
    this.name = name;
    millis = floor;
    newestMillis = floor;
  }

  String name() {
    return name;
  }

  void add(Mark mark, long worth) {
    newestMillis = worth;
    newestAtEnd = mark.readBefore() != Mark.UNREAD;
    Waiting next = new Waiting(mark.ends(), worth, 1);
    if (waiting.isEmpty()) {
      marksInOne = 1;
    }
    boolean joins = !waiting.isEmpty() && waiting.peekLast().marks() < marksInOne;
    waiting.add(joins ? waiting.pollLast().and(next) : next);
    if (waiting.size() > MAX_WAITING) {
      thinOut();
    }
  }

  /** The group writes no more; or it does again, when one of its producers says something. */
  void setEnded(boolean isEnded) {
    ended = isEnded;
  }

  void advance(Map<Integer, Long> read) {
    while (!waiting.isEmpty() && waiting.peek().isRead(read)) {
      millis = waiting.poll().millis();
    }
  }

  long millis() {
    return millis;
  }

  long newestMillis() {
    return newestMillis;
  }

  /** Whether all rows before its newest mark are read. */
  boolean isRead() {
    return waiting.isEmpty();
  }

  /** Whether it has come no further by its newest mark, so that whoever reads its rows comes no further either. */
  boolean isStanding() {
    return newestMillis <= millis;
  }

  /** Whether its newest mark says that it had read all its inputs. */
  boolean isAtEnd() {
    return isRead() && newestAtEnd;
  }

  /** Whether it still writes, and its newest mark says that it knows no event time. */
  boolean knowsNoTime() {
    return newestMillis == Long.MAX_VALUE && !ended;
  }

  /** A producer that has ended, or knows no event time, holds back nobody. */
  boolean holdsBack() {
    return millis != Long.MAX_VALUE && !(ended && isRead());
  }

  /** In a long backlog only every second mark counts, then every fourth. A reader waits for the next one: safe. */
  private void thinOut() {
    marksInOne *= 2;
    List<Waiting> all = new ArrayList<>(waiting);
    Deque<Waiting> thinned = new ArrayDeque<>();
    for (int place = 0; place + 1 < all.size(); place += 2) {
      thinned.add(all.get(place).and(all.get(place + 1)));
    }
    if (all.size() % 2 == 1) {
      thinned.add(all.get(all.size() - 1));
    }
    waiting = thinned;
  }
}
