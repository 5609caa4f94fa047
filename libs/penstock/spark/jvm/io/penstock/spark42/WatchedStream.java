package io.penstock.spark42;

import java.io.IOException;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;

/** A stream that is read as long as somebody wants it, who is asked before every 64 KiB. */
final class WatchedStream extends FSInputStream {
  private static final int BYTES = 1 << 16;

  private final FSDataInputStream stream;
  private final BooleanSupplier isWanted;
  private long left;

  WatchedStream(FSDataInputStream stream, BooleanSupplier isWanted) {
    this.stream = stream;
    this.isWanted = isWanted;
  }

  @Override
  public int read() throws IOException {
    require();
    int read = stream.read();
    left--;
    return read;
  }

  @Override
  public int read(byte[] buffer, int offset, int length) throws IOException {
    require();
    int read = stream.read(buffer, offset, length);
    left -= read;
    return read;
  }

  private void require() throws IOException {
    if (left > 0) {
      return;
    }
    if (!isWanted.getAsBoolean()) {
      throw new IOException("it was given up");
    }
    left = BYTES;
  }

  @Override
  public void seek(long position) throws IOException {
    stream.seek(position);
  }

  @Override
  public long getPos() throws IOException {
    return stream.getPos();
  }

  @Override
  public boolean seekToNewSource(long target) throws IOException {
    return stream.seekToNewSource(target);
  }

  @Override
  public void close() throws IOException {
    stream.close();
  }
}
