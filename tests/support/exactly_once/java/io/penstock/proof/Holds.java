package io.penstock.proof;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Waiting on files, by which a test holds a process at a certain place. */
final class Holds {
  private static final long POLL_NANOS = 5_000_000;

  private Holds() {}

  /** Waits while {@code hold} exists, and says that it does by the file {@code <hold>.reached}. */
  static void pass(Path hold) throws IOException {
    if (!Files.exists(hold)) {
      return;
    }
    Files.createFile(hold.resolveSibling(hold.getFileName() + ".reached"));
    awaitThat(() -> !Files.exists(hold));
  }

  /** Interrupts do not end the wait: what is held must not notice. */
  static void awaitThat(BooleanSupplier condition) {
    boolean interrupted = false;
    while (!condition.getAsBoolean()) {
      LockSupport.parkNanos(POLL_NANOS);
      interrupted |= Thread.interrupted();
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
