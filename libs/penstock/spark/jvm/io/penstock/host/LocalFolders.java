package io.penstock.host;

import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but for permissions: without Hadoop's native library, it would start {@code chmod} for
 * each file and folder that it makes. As with {@code chmod}, folders keep their setuid and setgid bits.
 */
public final class LocalFolders extends LocalFileSystem {
  /** Called by Hadoop, for the scheme {@code file}. */
  public LocalFolders() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    private static final String MODE = "unix:mode";
    private static final int KEPT = 06000;

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      var file = pathToFile(path).toPath();
      if (!file.getFileSystem().supportedFileAttributeViews().contains("unix")) {
        super.setPermission(path, permission);
        return;
      }
      int kept = Files.isDirectory(file) ? (int) Files.getAttribute(file, MODE) & KEPT : 0;
      Files.setAttribute(file, MODE, kept | permission.toShort());
    }
  }
}
