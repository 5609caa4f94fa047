package io.penstock.kafka.sink.errors;

/** Kafka refused this writer because the series has a newer one. The message starts with {@code FENCED}. */
public final class FencedSinkException extends IllegalStateException {
  FencedSinkException(String detail, Throwable cause) {
    super("FENCED: " + detail, cause);
  }
}
