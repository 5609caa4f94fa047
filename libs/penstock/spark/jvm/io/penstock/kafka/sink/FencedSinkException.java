package io.penstock.kafka.sink;

/** A newer writer of the series exists, and Kafka refused this one. The message starts with {@code FENCED}. */
public final class FencedSinkException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  FencedSinkException(String detail, Throwable cause) {
    super("FENCED: " + detail, cause);
  }
}
