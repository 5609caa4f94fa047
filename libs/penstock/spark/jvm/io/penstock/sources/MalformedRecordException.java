package io.penstock.sources;

/** Records that are not as the input declares them, where the job does not go on without them. A retry cannot help. */
public final class MalformedRecordException extends RuntimeException {
  MalformedRecordException(String message) {
    super(message);
  }
}
