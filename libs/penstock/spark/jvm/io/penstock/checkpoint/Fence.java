package io.penstock.checkpoint;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The check that a task still owns its checkpoint: its token must be the newest in the FENCE file. */
interface Fence {
  String PATH = "penstock.fence.path";
  String TOKEN = "penstock.fence.token";
  String ALLOW_NOT_ATOMIC = "penstock.fence.allow_not_atomic";

  /** Publishes if the token is still the newest. Otherwise throws {@link FencedException} and publishes nothing. */
  void guard(Unchecked.Action<Void> publish) throws IOException;

  /** The fence that the session's settings name. Without one, everything may be published. */
  static Fence of(Configuration settings) throws IOException {
    String path = settings.get(PATH);
    if (path == null) {
      return Unchecked.Action::run;
    }
    String token = settings.get(TOKEN, "");
    Path file = new Path(path);
    FileSystem files = file.getFileSystem(settings);
    if ("file".equals(files.getUri().getScheme())) {
      return new LockedFence(LocalFiles.of(file), token);
    }
    if (settings.getBoolean(ALLOW_NOT_ATOMIC, false)) {
      return new CheckedFence(files, file, token);
    }
    throw new IOException(files.getUri() + " has no file locks: a checkpoint there needs the setting "
        + ALLOW_NOT_ATOMIC);
  }

  /** Throws unless the first line of the FENCE file is the token. */
  static void require(String token, String content, Object file) throws FencedException {
    String newest = content.lines().findFirst().orElse("").trim();
    if (!newest.equals(token)) {
      throw new FencedException("token " + token + " was replaced by " + newest + " in " + file);
    }
  }
}
