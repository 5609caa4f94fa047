package io.penstock.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The fence on file systems without locks: it checks, then publishes. A new owner may claim in between. */
final class CheckedFence implements Fence {
  private final FileSystem files;
  private final Path file;
  private final String token;

  CheckedFence(FileSystem files, Path file, String token) {
    this.files = files;
    this.file = file;
    this.token = token;
  }

  @Override
  public void guard(Unchecked.Action<Void> publish) throws IOException {
    try (FSDataInputStream stream = files.open(file)) {
      Fence.require(token, new String(stream.readAllBytes(), StandardCharsets.UTF_8), file);
    } catch (FileNotFoundException error) {
      throw new FencedException("there is no " + file);
    }
    publish.run();
  }
}
