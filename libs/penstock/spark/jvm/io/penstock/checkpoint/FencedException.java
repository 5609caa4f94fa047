package io.penstock.checkpoint;

import java.io.IOException;

/** A newer owner of the checkpoint exists: nothing was published. The message starts with {@code FENCED}. */
public final class FencedException extends IOException {
  FencedException(String detail) {
    super("FENCED: " + detail);
  }
}
