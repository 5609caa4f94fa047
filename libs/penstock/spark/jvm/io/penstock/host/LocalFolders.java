package io.penstock.host;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, which sets permissions by java.nio. Without its native library, Hadoop forks {@code
 * chmod} for each file and folder that it makes.
 */
public final class LocalFolders extends LocalFileSystem {
  /** Called by Hadoop, for the scheme {@code file}. */
  public LocalFolders() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      var view = Files.getFileAttributeView(pathToFile(path).toPath(), PosixFileAttributeView.class);
      if (view == null || permission.getStickyBit()) {
        super.setPermission(path, permission);
        return;
      }
      view.setPermissions(PosixFilePermissions.fromString(permission.toString()));
    }
  }
}
