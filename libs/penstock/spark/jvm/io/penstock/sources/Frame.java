package io.penstock.sources;

import java.nio.ByteBuffer;

/** The frame of Confluent: a zero byte, and in 4 bytes the id of the writer's schema in a registry. */
public final class Frame {
  /** How long a frame is. */
  public static final int BYTES = 5;

  private Frame() {}

  /** The frame with this id. */
  public static byte[] of(int id) {
    return ByteBuffer.allocate(BYTES).put((byte) 0).putInt(id).array();
  }

  /** Whether a value may begin with a frame. */
  static boolean mayBegin(byte[] value) {
    return value.length >= BYTES && value[0] == 0;
  }

  /** The id in the frame of a value. Throws UnreadableValueException when it has none. */
  public static int idOf(byte[] value) {
    if (value.length < BYTES) {
      throw new UnreadableValueException(
          "the value has " + value.length + " bytes: too few for the frame of a schema registry");
    }
    if (value[0] != 0) {
      throw new UnreadableValueException(
          "the value begins with the byte " + (value[0] & 0xff) + ", not with 0 as a frame does");
    }
    return ByteBuffer.wrap(value, 1, Integer.BYTES).getInt();
  }
}
