package io.penstock.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsCreateModes;
import org.apache.hadoop.fs.permission.FsPermission;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LocalFoldersTest {
  @TempDir java.nio.file.Path folder;

  @Test
  void filesAndFoldersHaveThePermissionsThatHadoopGivesThem() throws Exception {
    var settings = new Configuration();
    settings.set("fs.file.impl", LocalFolders.class.getName());
    settings.set("fs.permissions.umask-mode", "027");
    try (var files = FileSystem.newInstance(URI.create("file:///"), settings)) {
      assertInstanceOf(LocalFolders.class, files);
      files.create(new Path(folder + "/made/file")).close();
      assertEquals("rwxr-x---", permissions("made"));
      assertEquals("rw-r-----", permissions("made/file"));
      files.setPermission(new Path(folder + "/made/file"), new FsPermission((short) 0604));
      assertEquals("rw----r--", permissions("made/file"));
      Files.setAttribute(folder.resolve("made"), "unix:mode", 02750);
      files.setPermission(new Path(folder + "/made"), FsCreateModes.create(new FsPermission("1755"), null));
      assertEquals(03755, (int) Files.getAttribute(folder.resolve("made"), "unix:mode") & 07777);
      assertEquals("rw----r--", files.getFileStatus(new Path(folder + "/made/file")).getPermission().toString());
    }
  }

  private String permissions(String name) throws Exception {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve(name)));
  }
}
