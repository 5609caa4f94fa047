package io.penstock.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Arrays;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;

/**
 * Files that are made whole, each by one of several writers, on file systems that can do that.
 *
 * <p>Object stores make a new object by a conditional put. HDFS and ADLS have an atomic rename that replaces nothing.
 */
public final class NewFiles {
  private enum Way { CONDITIONAL_PUT, RENAME }

  private static final Map<String, Way> WAYS = Map.of("s3a", Way.CONDITIONAL_PUT, "gs", Way.CONDITIONAL_PUT, "hdfs",
      Way.RENAME, "abfs", Way.RENAME, "abfss", Way.RENAME);
  private static final String S3A_WITHOUT_LOOKS = "fs.s3a.create.performance";
  private static final Map<String, Boolean> TRIED = new ConcurrentHashMap<>();

  private NewFiles() {}

  /** Whether one of several writers wins, by the kind of the file system. */
  public static boolean can(FileSystem files) {
    return WAYS.containsKey(scheme(files));
  }

  /** Whether an object appears when its stream is closed, so that nothing has to be renamed. */
  static boolean appearsAtClose(FileSystem files) {
    return WAYS.get(scheme(files)) == Way.CONDITIONAL_PUT;
  }

  /**
   * Tries, once in a JVM and bucket, whether a second writer is refused: some servers ignore the condition of a put.
   *
   * @throws IOException when the second one is not refused, or nothing can be written
   */
  public static void require(FileSystem files, Path folder) throws IOException {
    String store = files.getUri().toString();
    if (TRIED.containsKey(store)) {
      return;
    }
    Path file = new Path(folder, ".exclusive-" + UUID.randomUUID());
    try {
      create(files, file, new byte[] {1});
      if (create(files, file, new byte[] {2})) {
        throw new IOException(store + " lets a second writer replace a new file: it ignores If-None-Match, so it"
            + " cannot keep two owners of a checkpoint apart");
      }
    } finally {
      files.delete(file, false);
    }
    TRIED.put(store, true);
  }

  /**
   * Makes a file with this content. Returns false, and changes nothing, when there is one with another content. A file
   * with the same content is taken for this writer's own: the answer to its first try may have been lost.
   */
  public static boolean create(FileSystem files, Path file, byte[] content) throws IOException {
    try {
      if (appearsAtClose(files)) {
        put(files, file, content);
      } else if (!renameInto(files, file, content)) {
        return isThere(files, file, content, null);
      }
      return true;
    } catch (InterruptedIOException error) {
      throw error;
    } catch (IOException error) {
      return isThere(files, file, content, error);
    }
  }

  /** The content of a file. Throws FileNotFoundException when there is none. */
  public static byte[] read(FileSystem files, Path file) throws IOException {
    try (FSDataInputStream stream = files.open(file)) {
      return stream.readAllBytes();
    }
  }

  /** What is in a folder; nothing when there is no such folder. */
  static FileStatus[] list(FileSystem files, Path folder) throws IOException {
    try {
      return files.listStatus(folder);
    } catch (FileNotFoundException none) {
      return new FileStatus[0];
    }
  }

  /** A stream whose file appears when it is closed, in place of what is there unless it must be {@code fresh}. */
  public static FSDataOutputStream open(FileSystem files, Path file, boolean fresh) throws IOException {
    if ("gs".equals(scheme(files))) {
      return files.create(file, !fresh);
    }
    FSDataOutputStreamBuilder<FSDataOutputStream, ?> builder = files.createFile(file);
    builder.recursive().overwrite(true).opt(S3A_WITHOUT_LOOKS, true);
    if (fresh) {
      builder.opt(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
    }
    return builder.build();
  }

  private static void put(FileSystem files, Path file, byte[] content) throws IOException {
    try (FSDataOutputStream stream = open(files, file, true)) {
      stream.write(content);
    }
  }

  private static boolean renameInto(FileSystem files, Path file, byte[] content) throws IOException {
    Path fresh = new Path(file.getParent(), "." + file.getName() + "." + UUID.randomUUID() + ".tmp");
    try (FSDataOutputStream stream = files.create(fresh, false)) {
      stream.write(content);
    }
    boolean renamed = false;
    try {
      renamed = files.rename(fresh, file);
    } finally {
      if (!renamed) {
        files.delete(fresh, false);
      }
    }
    return renamed;
  }

  /** Whether the file has this content. Without a file nothing is known but the error, which is thrown. */
  private static boolean isThere(FileSystem files, Path file, byte[] content, IOException error) throws IOException {
    try {
      return Arrays.equals(read(files, file), content);
    } catch (FileNotFoundException none) {
      throw error != null ? error : new IOException("neither made nor there: " + file);
    } catch (IOException second) {
      if (error != null) {
        second.addSuppressed(error);
      }
      throw second;
    }
  }

  private static String scheme(FileSystem files) {
    return files.getUri().getScheme();
  }
}
