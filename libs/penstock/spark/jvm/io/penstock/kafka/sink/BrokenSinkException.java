package io.penstock.kafka.sink;

/** Something that trying again cannot help: an option, a column, a right, or a checkpoint must be changed. */
public final class BrokenSinkException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  BrokenSinkException(String message) {
    super(message);
  }

  BrokenSinkException(String message, Throwable cause) {
    super(message, cause);
  }
}
