package io.penstock.state;

/** The state cannot be moved, however often it is tried: of no rows of it is known which key group they are of. */
public final class UnmovableStateException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  UnmovableStateException(String detail) {
    super(detail);
  }
}
