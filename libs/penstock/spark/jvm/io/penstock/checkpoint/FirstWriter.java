package io.penstock.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.UUID;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Files that any of several writers makes, whole, and that stay as the first one has made them. */
public final class FirstWriter {
  private final FileSystem files;

  public FirstWriter(FileSystem files) {
    this.files = files;
  }

  /** Null when there is no such file. */
  public byte[] read(Path file) throws IOException {
    try {
      return isLocal() ? Files.readAllBytes(LocalFiles.of(file)) : NewFiles.read(files, file);
    } catch (FileNotFoundException | java.nio.file.NoSuchFileException none) {
      return null;
    }
  }

  /** The content that the file has from now on: this one, or that of an earlier writer. */
  public byte[] write(Path file, byte[] content) throws IOException {
    if (isLocal() ? writeLocally(file, content) : writeFar(file, content)) {
      return content;
    }
    return read(file);
  }

  private boolean writeLocally(Path file, byte[] content) throws IOException {
    java.nio.file.Path target = LocalFiles.of(file);
    java.nio.file.Path fresh = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    try (OutputStream stream = LocalFiles.create(fresh)) {
      stream.write(content);
    }
    try {
      LocalFiles.publish(fresh, target, false);
      return true;
    } catch (FileAlreadyExistsException earlier) {
      return false;
    }
  }

  private boolean writeFar(Path file, byte[] content) throws IOException {
    if (!NewFiles.can(files)) {
      throw new IOException(files.getUri() + " cannot make a file by one of several writers, so tasks that read a stream"
          + " together cannot keep their notes there: use a checkpoint root that is named in STORES.md, or one task");
    }
    if (NewFiles.appearsAtClose(files)) {
      NewFiles.require(files, file.getParent());
    }
    return NewFiles.create(files, file, content);
  }

  private boolean isLocal() {
    return "file".equals(files.getUri().getScheme());
  }
}
