package io.penstock.kafka.marks;

import java.util.OptionalLong;

/** What a sink may ask an input of its query, from any thread. */
public interface InputProgress {
  /** How late a row of this input may be; 0 for an input without a watermark. */
  long delayMillis();

  /** The event time that the producers of this input have come to, as of what was read. Empty: it has none known. */
  OptionalLong producersMillis();

  /** The same after the batch whose tasks have just ended. Only for the query's own thread. */
  OptionalLong producersAfterBatchMillis();

  /** Whether all known producers of this input had read all their own inputs, and are silent since. */
  boolean producersAreAtEnd();

  /** When the input was asked and had no unread rows, by {@code System.nanoTime()}. Empty: it has some, or may have. */
  OptionalLong readAllNanos();
}
