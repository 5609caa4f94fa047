package io.penstock.checkpoint;

import java.io.IOException;

/** Throws IOException through Spark's Scala interfaces, which expect it but declare no exceptions. */
final class Unchecked {
  private Unchecked() {}

  /** An action that may fail with an IOException. */
  @FunctionalInterface
  interface Action<T> {
    T run() throws IOException;
  }

  static <T> T run(Action<T> action) {
    try {
      return action.run();
    } catch (IOException error) {
      throw Unchecked.<RuntimeException>asUnchecked(error);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asUnchecked(Throwable error) throws E {
    throw (E) error;
  }
}
