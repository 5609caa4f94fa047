package io.penstock.kafka.source.idle;

import java.util.Optional;

/** A source that can tell how long it has had no rows. */
public interface IdleSource {
  /** Empty when the source does not have the option {@code idleTimeoutMillis}. */
  Optional<IdleInput> idleInput();
}
