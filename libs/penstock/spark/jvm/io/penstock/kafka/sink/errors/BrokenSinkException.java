package io.penstock.kafka.sink.errors;

/** An error that a retry cannot help: an option, a column, an ACL or the checkpoint must be changed. */
public final class BrokenSinkException extends IllegalStateException {
  public BrokenSinkException(String message) {
    super(message);
  }

  public BrokenSinkException(String message, Throwable cause) {
    super(message, cause);
  }
}
