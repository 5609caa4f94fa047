package io.penstock.sources;

/** The value of a record is not what the job's schema says, or its frame names no schema. The record is malformed. */
public final class UnreadableValueException extends RuntimeException {
  public UnreadableValueException(String message) {
    // Thrown for each such record, and never printed: only the text is kept.
    super(message, null, false, false);
  }

  @Override
  public String toString() {
    return getMessage();
  }
}
