package io.penstock.checkpoint;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FileAlreadyExistsException;

/** Local files by java.nio. Hadoop's local file system would fork {@code chmod} and {@code readlink} for each call. */
final class LocalFiles {
  private LocalFiles() {}

  static Path of(org.apache.hadoop.fs.Path path) {
    return Path.of(path.toUri().getPath());
  }

  static OutputStream create(Path file) throws IOException {
    try {
      return new BufferedOutputStream(Files.newOutputStream(file));
    } catch (NoSuchFileException missingFolder) {
      Files.createDirectories(file.getParent());
      return new BufferedOutputStream(Files.newOutputStream(file));
    }
  }

  /** Moves {@code temporary} to {@code target} atomically. Without {@code overwrite} an existing target stays. */
  static void publish(Path temporary, Path target, boolean overwrite) throws IOException {
    if (overwrite) {
      Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
      return;
    }
    try {
      // Creating a link fails atomically when the target exists. No form of rename does.
      Files.createLink(target, temporary);
    } catch (java.nio.file.FileAlreadyExistsException error) {
      throw new FileAlreadyExistsException(target.toString());
    } finally {
      Files.deleteIfExists(temporary);
    }
  }

  static void deleteTree(Path root) throws IOException {
    if (!Files.isDirectory(root)) {
      Files.deleteIfExists(root);
      return;
    }
    List<Path> childrenFirst;
    try (Stream<Path> tree = Files.walk(root)) {
      childrenFirst = tree.sorted(Comparator.reverseOrder()).toList();
    } catch (UncheckedIOException error) {
      throw error.getCause();
    }
    for (Path path : childrenFirst) {
      Files.deleteIfExists(path);
    }
  }
}
