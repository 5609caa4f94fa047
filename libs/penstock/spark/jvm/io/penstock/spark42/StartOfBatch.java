package io.penstock.spark42;

import java.util.Optional;

/** A source that knows where the batch in hand begins. Spark itself does not know it of the first batch. */
public interface StartOfBatch {
  /** The text of the offsets. Empty before the first batch. May be asked from any thread. */
  Optional<String> startOfBatch();
}
