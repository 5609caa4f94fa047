package io.penstock.sources;

/** The schema registry gave no answer, or none that says anything of a record. A later attempt may succeed. */
public final class RegistryException extends RuntimeException {
  RegistryException(String message, Throwable cause) {
    super(message, cause);
  }
}
