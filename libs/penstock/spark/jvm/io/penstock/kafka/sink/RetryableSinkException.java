package io.penstock.kafka.sink;

/** The batch was not written, and running it again can help. */
public final class RetryableSinkException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  RetryableSinkException(String message) {
    super(message);
  }

  RetryableSinkException(String message, Throwable cause) {
    super(message, cause);
  }
}
