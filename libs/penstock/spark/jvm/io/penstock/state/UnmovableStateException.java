package io.penstock.state;

/** The state cannot be moved, and a retry cannot help: the key groups of its rows are not known. */
public final class UnmovableStateException extends RuntimeException {
  UnmovableStateException(String detail) {
    super(detail);
  }
}
