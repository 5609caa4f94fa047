package io.penstock.kafka.sink.run;

import io.penstock.kafka.marks.Mark;
import io.penstock.kafka.sink.clients.MarksTail;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.spark42.RunningQuery;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** What a run says in its marks: with the rows of each batch, and while it is idle. For one thread at a time. */
final class RunMarks {
  private final SinkOptions options;
  private final RunningQuery query;
  private OptionalLong time = OptionalLong.empty();
  private Mark written;
  private long writtenNanos;
  private MarksTail.Reading asked;
  private long coveredMillis;

  RunMarks(SinkOptions options, RunningQuery query) {
    this.options = options;
    this.query = query;
  }

  /** Notes the time after a batch, on the query's thread. */
  void batchEnded() {
    if (options.marks().areOn()) {
      time = ProducerTime.afterBatch(query);
      asked = null;
    }
  }

  /** The mark of the batch with these ends of its rows. A run without event times says so once. */
  Optional<Mark> ofBatch(Map<Integer, Long> ends) {
    return saysNothing() ? Optional.empty() : Optional.of(mark(Mark.UNREAD, ends));
  }

  /** Whether the time of a batch that wrote no rows must be said at once: no mark of this run was written yet. */
  boolean isFirst() {
    return options.marks().areOn() && written == null;
  }

  /** The mark that an idle query has to write now, if any. */
  Optional<Mark> whileIdle(long nowNanos) {
    if (!options.marks().areOn() || nowNanos - writtenNanos < options.marks().every().toNanos()) {
      return Optional.empty();
    }
    time = ProducerTime.whileIdle(query, time);
    if (saysNothing()) {
      return Optional.empty();
    }
    long readBefore = readBefore();
    if (written != null && readBefore == Mark.UNREAD && time.equals(written.time())) {
      return Optional.empty();
    }
    return Optional.of(mark(readBefore, Map.of()));
  }

  void written(Mark mark) {
    written = mark;
    writtenNanos = System.nanoTime();
  }

  /**
   * The offset of the marks topic up to which the query is known to be no further behind than its fellows: it had read
   * all its inputs after the marks before this offset were there. UNREAD if that is not so, or has been said.
   */
  private long readBefore() {
    boolean said = written != null && written.readBefore() != Mark.UNREAD;
    if (asked == null) {
      MarksTail.Reading now = MarksTail.read(options);
      asked = said && now.latestMillis() <= saidMillis() ? null : now;
    }
    if (asked == null || !ProducerTime.hadReadAll(query, asked.nanos())) {
      return Mark.UNREAD;
    }
    coveredMillis = asked.latestMillis();
    long position = asked.position();
    asked = null;
    return position;
  }

  private long saidMillis() {
    return Math.max(coveredMillis, time.orElse(0));
  }

  private boolean saysNothing() {
    return !options.marks().areOn() || (written != null && time.isEmpty() && written.time().isEmpty());
  }

  private Mark mark(long readBefore, Map<Integer, Long> ends) {
    return new Mark(options.marks().producer(), time, readBefore, false, ends);
  }
}
