package io.penstock.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.commons.io.function.IORunnable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The check that a task still owns its checkpoint: its token must be the newest in the FENCE file. */
interface Fence {
  String PATH = "penstock.fence.path";
  String TOKEN = "penstock.fence.token";
  String ALLOW_NOT_ATOMIC = "penstock.fence.allow_not_atomic";
  String DELTA_LOG = "_delta_log";

  /** Publishes if the token is still the newest. Otherwise throws {@link FencedException} and publishes nothing. */
  void guard(IORunnable publish) throws IOException;

  /** Whether {@link #publish} must be used for a file. */
  default boolean publishes(Path file) {
    return false;
  }

  /** Makes a file with this content if the token is still the newest, in one step. Otherwise throws, and makes none. */
  default void publish(Path file, byte[] content) throws IOException {
    throw new IllegalStateException("not a file of the fence: " + file);
  }

  /**
   * The fence for files of a folder: the one that the session's settings name. Without one, everything may be published.
   *
   * <p>So may what Delta writes this way to the log of a table, which is one thing: the checksum of a version. That
   * version is committed, by a way of its own, and whoever writes its checksum writes the same. A first one is never
   * replaced. The session that makes a table has no checkpoint at all.
   */
  static Fence of(Path folder, Configuration settings) throws IOException {
    String path = settings.get(PATH);
    if (path == null || DELTA_LOG.equals(folder.getName())) {
      return IORunnable::run;
    }
    String token = settings.get(TOKEN, "");
    Path file = new Path(path);
    FileSystem files = file.getFileSystem(settings);
    if ("file".equals(files.getUri().getScheme())) {
      return new LockedFence(LocalFiles.of(file), token);
    }
    if (NewFiles.can(files)) {
      return new LoggedFence(new FenceLog(files, file), file, token);
    }
    if (settings.getBoolean(ALLOW_NOT_ATOMIC, false)) {
      return notAtomic(files, file, token);
    }
    throw new IOException(files.getUri() + " has no file locks: a checkpoint there needs the setting "
        + ALLOW_NOT_ATOMIC);
  }

  /** The fence on file systems without locks: it checks, then publishes. A new owner may claim in between. */
  private static Fence notAtomic(FileSystem files, Path file, String token) {
    return publish -> {
      try (FSDataInputStream stream = files.open(file)) {
        require(token, new String(stream.readAllBytes(), StandardCharsets.UTF_8), file);
      } catch (FileNotFoundException error) {
        throw new FencedException("there is no " + file);
      }
      publish.run();
    };
  }

  /** Throws unless the first line of the FENCE file is the token. Whoever has no token yet owns nothing. */
  static void require(String token, String content, Object file) throws FencedException {
    if (token.isEmpty()) {
      throw new FencedException("without a token for " + file);
    }
    String newest = content.lines().findFirst().orElse("").trim();
    if (!newest.equals(token)) {
      throw new FencedException("token " + token + " was replaced by " + newest + " in " + file);
    }
  }
}
