package io.penstock.delta;

import io.delta.storage.HadoopFileSystemLogStore;
import io.penstock.checkpoint.NewFiles;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The log of Delta tables on S3: of several writers of a version one wins, by a conditional put. Delta's own store for
 * S3 excludes only the writers of its JVM, and tasks of a job are in several.
 */
public final class ConditionalLogStore extends HadoopFileSystemLogStore {
  public ConditionalLogStore(Configuration settings) {
    super(settings);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration settings)
      throws IOException {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    actions.forEachRemaining(action -> content.writeBytes((action + "\n").getBytes(StandardCharsets.UTF_8)));
    FileSystem files = path.getFileSystem(settings);
    if (overwrite) {
      try (OutputStream stream = NewFiles.open(files, path, false)) {
        content.writeTo(stream);
      }
    } else if (!NewFiles.create(files, path, content.toByteArray())) {
      throw new FileAlreadyExistsException(path.toString());
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration settings) {
    return false;
  }
}
