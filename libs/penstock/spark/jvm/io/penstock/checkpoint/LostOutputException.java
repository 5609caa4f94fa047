package io.penstock.checkpoint;

/** What a task wrote was deleted while it ran. A retry cannot help. */
public final class LostOutputException extends RuntimeException {
  LostOutputException(String message) {
    super(message);
  }
}
