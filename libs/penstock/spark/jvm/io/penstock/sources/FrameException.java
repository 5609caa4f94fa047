package io.penstock.sources;

import org.apache.avro.AvroRuntimeException;

/** A record that has no frame of a schema registry, or one that names no schema of Avro there. It is malformed. */
final class FrameException extends AvroRuntimeException {
  FrameException(String message) {
    super(message);
  }

  @Override
  public String toString() {
    return getMessage();
  }
}
