package io.penstock.kafka.sink.errors;

/** The batch was not written. A retry can help. */
public final class RetryableSinkException extends IllegalStateException {
  public RetryableSinkException(String message) {
    super(message);
  }

  public RetryableSinkException(String message, Throwable cause) {
    super(message, cause);
  }
}
