package io.penstock.sources;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.Decoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.util.Utf8;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The bytes of one Avro datum. Unlike Avro's own decoder it believes no length that the bytes do not have room for, so
 * a record of another schema costs no memory. It takes only 0 and 1 for a boolean, and only UTF-8 for a string.
 *
 * <p>Its methods throw UnreadableValueException, and what Avro's decoder throws. For use by one thread.
 */
final class AvroBytes extends Decoder {
  /** Items of an array may have no bytes; more of these are an error. */
  private static final long MOST_EMPTY_ITEMS = 1_000;

  private final byte[] single = new byte[1];
  private BinaryDecoder in;

  /** Goes on with the bytes of another datum, from {@code begin} on. */
  void begin(byte[] bytes, int begin) {
    in = DecoderFactory.get().binaryDecoder(bytes, begin, bytes.length - begin, in);
  }

  /** How many bytes are left. */
  int left() throws IOException {
    return in.inputStream().available();
  }

  @Override
  public void readNull() throws IOException {
    in.readNull();
  }

  @Override
  public boolean readBoolean() throws IOException {
    in.readFixed(single, 0, 1);
    if (single[0] != 0 && single[0] != 1) {
      throw new UnreadableValueException("a boolean is the byte " + (single[0] & 0xff));
    }
    return single[0] == 1;
  }

  @Override
  public int readInt() throws IOException {
    return in.readInt();
  }

  @Override
  public long readLong() throws IOException {
    return in.readLong();
  }

  @Override
  public float readFloat() throws IOException {
    return in.readFloat();
  }

  @Override
  public double readDouble() throws IOException {
    return in.readDouble();
  }

  @Override
  public Utf8 readString(Utf8 old) throws IOException {
    Utf8 text = old == null ? new Utf8() : old;
    int length = length("a string");
    text.setByteLength(length);
    in.readFixed(text.getBytes(), 0, length);
    if (!UTF8String.fromBytes(text.getBytes(), 0, length).isValid()) {
      throw new UnreadableValueException("a string is not UTF-8");
    }
    return text;
  }

  @Override
  public String readString() throws IOException {
    return readString(null).toString();
  }

  @Override
  public void skipString() throws IOException {
    in.skipFixed(length("a string"));
  }

  @Override
  public ByteBuffer readBytes(ByteBuffer old) throws IOException {
    byte[] bytes = new byte[length("bytes")];
    in.readFixed(bytes, 0, bytes.length);
    return ByteBuffer.wrap(bytes);
  }

  @Override
  public void skipBytes() throws IOException {
    in.skipFixed(length("bytes"));
  }

  @Override
  public void readFixed(byte[] bytes, int start, int length) throws IOException {
    in.readFixed(bytes, start, length);
  }

  @Override
  public void skipFixed(int length) throws IOException {
    in.skipFixed(length);
  }

  @Override
  public int readEnum() throws IOException {
    return in.readEnum();
  }

  @Override
  public long readArrayStart() throws IOException {
    return items();
  }

  @Override
  public long arrayNext() throws IOException {
    return items();
  }

  @Override
  public long skipArray() throws IOException {
    return skipBlocks();
  }

  @Override
  public long readMapStart() throws IOException {
    return items();
  }

  @Override
  public long mapNext() throws IOException {
    return items();
  }

  @Override
  public long skipMap() throws IOException {
    return skipBlocks();
  }

  @Override
  public int readIndex() throws IOException {
    return in.readIndex();
  }

  private int length(String what) throws IOException {
    long length = in.readLong();
    if (length < 0 || length > left()) {
      throw new UnreadableValueException(what + " of " + length + " bytes begins where " + left() + " bytes are left");
    }
    return (int) length;
  }

  /** The number of items in the next block. A negative one stands before the size of the block. */
  private long items() throws IOException {
    long count = in.readLong();
    if (count < 0) {
      length("a block");
      count = -count;
    }
    return require(count);
  }

  /** Skips the blocks whose sizes are written. Returns the number of items in the one after them. */
  private long skipBlocks() throws IOException {
    long count = in.readLong();
    while (count < 0) {
      in.skipFixed(length("a block"));
      count = in.readLong();
    }
    return require(count);
  }

  private long require(long count) throws IOException {
    if (count < 0 || (count > left() && count > MOST_EMPTY_ITEMS)) {
      throw new UnreadableValueException(count + " items of an array or map begin where " + left() + " bytes are left");
    }
    return count;
  }
}
