package io.penstock.kafka.sink.run;

import io.penstock.kafka.marks.InputProgress;
import io.penstock.spark42.RunningQuery;
import java.util.List;
import java.util.OptionalLong;

/**
 * How far in event time a query has come: no row that it writes later belongs before this time, apart from the disorder
 * that its readers allow for. The time of a query with state is the watermark, for it has written all results up to it.
 * The time of another query is that of the rows it has read, or that of their producers.
 */
final class ProducerTime {
  private ProducerTime() {}

  /** After a batch whose tasks have ended, on the query's thread. Empty: nobody knows the event time of its rows. */
  static OptionalLong afterBatch(RunningQuery query) {
    if (query.isStateful()) {
      return query.hasWatermark() ? OptionalLong.of(query.watermarkOfBatchMillis()) : OptionalLong.empty();
    }
    List<OptionalLong> producers =
        inputs(query).stream().map(InputProgress::producersAfterBatchMillis).toList();
    OptionalLong least = least(producers);
    if (isKnownForAll(query, producers)) {
      return least;
    }
    if (!query.hasWatermark()) {
      return OptionalLong.empty();
    }
    long ofRows = ofRows(query);
    return OptionalLong.of(least.isPresent() ? Math.min(least.getAsLong(), ofRows) : ofRows);
  }

  /** Between two batches, when {@code last} was the time after the one before. On any thread. */
  static OptionalLong whileIdle(RunningQuery query, OptionalLong last) {
    List<OptionalLong> producers = inputs(query).stream().map(InputProgress::producersMillis).toList();
    if (query.isStateful() || !isKnownForAll(query, producers)) {
      return last;
    }
    return OptionalLong.of(Math.max(last.orElse(0), least(producers).orElseThrow()));
  }

  /** Whether the query has read all its inputs, at a moment after {@code nanos}, and holds nothing back. */
  static boolean hadReadAll(RunningQuery query, long nanos) {
    List<InputProgress> inputs = inputs(query);
    return inputs.size() == query.sources().size()
        && inputs.stream().allMatch(input -> input.producersAreAtEnd()
            && input.readAllNanos().isPresent() && input.readAllNanos().getAsLong() - nanos > 0)
        && !(query.isStateful() && query.mayHoldState());
  }

  /** The event time that the rows have come to: the watermark without its delay. */
  private static long ofRows(RunningQuery query) {
    long watermark = query.watermarkAfterBatchMillis();
    long delay = inputs(query).stream().mapToLong(InputProgress::delayMillis).min().orElse(0);
    return watermark <= 0 ? 0 : watermark + delay;
  }

  private static boolean isKnownForAll(RunningQuery query, List<OptionalLong> producers) {
    return !producers.isEmpty() && producers.size() == query.sources().size()
        && producers.stream().allMatch(OptionalLong::isPresent);
  }

  private static OptionalLong least(List<OptionalLong> times) {
    return times.stream().flatMapToLong(OptionalLong::stream).map(millis -> Math.max(0, millis)).min();
  }

  private static List<InputProgress> inputs(RunningQuery query) {
    return query.sources().stream().filter(InputProgress.class::isInstance).map(InputProgress.class::cast).toList();
  }
}
