package io.penstock.streams;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The paths of the files of all sections before one. A section on the way that knows of all before it saves theirs. */
final class SeenFiles {
  private final Set<String> paths = new HashSet<>();
  private long next = SectionLog.FIRST;

  /** Takes in the files of all sections before {@code number}, which only grows. */
  void seeTo(long number, SectionLog log) {
    long whole = (number - 1) / SectionLog.COMPACT_EVERY * SectionLog.COMPACT_EVERY;
    if (whole >= next) {
      paths.addAll(log.require(whole).earlier());
      next = whole;
    }
    for (; next < number; next++) {
      log.require(next).files().forEach(file -> paths.add(file.path()));
    }
  }

  boolean has(String path) {
    return paths.contains(path);
  }

  /** What section {@code number}, to which these files have been seen, says of the files before it. Null: nothing. */
  List<String> earlierOf(long number) {
    return number % SectionLog.COMPACT_EVERY == 0 ? paths.stream().sorted().toList() : null;
  }
}
