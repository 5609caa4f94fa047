package io.penstock.checkpoint;

import java.io.IOException;

/** A newer owner of the checkpoint exists: nothing was published. The message starts with {@code FENCED}. */
public final class FencedException extends IOException {
  private static final long serialVersionUID = 1L;

  FencedException(String detail) {
    super("FENCED: " + detail);
  }
}
