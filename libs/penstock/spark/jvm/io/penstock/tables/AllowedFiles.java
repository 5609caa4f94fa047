package io.penstock.tables;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.List;

/** Local files of a table must be below the cell's roots, links resolved, as at the start of a task. */
final class AllowedFiles {
  private final String name;
  private final List<Path> roots;

  /** {@code roots}: local folders, links resolved. */
  AllowedFiles(String name, List<Path> roots) {
    this.name = name;
    this.roots = roots;
  }

  void require(URI file) {
    if (!"file".equals(file.getScheme())) {
      return;
    }
    Path real = real(Path.of(file.getPath()));
    if (roots.stream().noneMatch(root -> real.startsWith(root) && !real.equals(root))) {
      throw new TableChangedException("tables." + name + ".path: a job may not use " + real
          + ", which a file of the table leads to: it is below none of PENSTOCK_PATH_ROOTS");
    }
  }

  private Path real(Path file) {
    try {
      return file.toRealPath();
    } catch (IOException error) {
      throw new UncheckedIOException("tables." + name + ".path: the file " + file + " of the table is gone", error);
    }
  }
}
