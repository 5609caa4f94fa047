package io.penstock.sources.plain;

/** Something is left to Spark. Without a stack, since it may be thrown for each record. */
final class NotPlainException extends RuntimeException {
  private static final NotPlainException ONE = new NotPlainException();

  private NotPlainException() {
    super("only Spark reads this", null, false, false);
  }

  static NotPlainException found() {
    return ONE;
  }

  /** Throws unless {@code plain}. */
  static void require(boolean plain) {
    if (!plain) {
      throw ONE;
    }
  }
}
