package io.penstock.streams;

import io.penstock.checkpoint.FirstWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * The sections of a stream: one file for each, named by its number, the same for all tasks, generations and repeated
 * batches of a job. Whoever is first to need a section says what it has; then nobody changes it. So tasks see the same
 * rows in the same sections, and one that nobody waits for any more can only add what all others take over.
 *
 * <p>Methods raise UncheckedIOException. Not safe for use by several threads.
 */
final class SectionLog {
  /** The section before the first one with rows. */
  static final long BEGIN = 0;

  static final long FIRST = 1;

  /** Every such section knows the files of sections before it: see {@link #span}. */
  static final long COMPACT_EVERY = 64;

  private static final int KEPT = 4;

  private final Path folder;
  private final Configuration settings;
  private final Map<Long, Section> known = new LinkedHashMap<>() {
    @Override
    protected boolean removeEldestEntry(Map.Entry<Long, Section> eldest) {
      return size() > KEPT;
    }
  };

  SectionLog(String folder, Configuration settings) {
    this.folder = new Path(folder);
    this.settings = settings;
  }

  /**
   * How many sections the one of this number knows the files of, itself counted: the greatest power of 64 that divides
   * it. So a file is listed once for each power, and from any section few lead back to the first.
   */
  static long span(long number) {
    long span = 1;
    while (number % (span * COMPACT_EVERY) == 0) {
      span *= COMPACT_EVERY;
    }
    return span;
  }

  /** The paths of the files of all sections after {@code from} and before {@code to}, of a folder; perhaps of more. */
  List<String> files(long from, long to) {
    List<String> paths = new ArrayList<>();
    for (long number = to - 1; number > from; number -= span(number)) {
      Section section = require(number);
      section.files().forEach(file -> paths.add(file.path()));
      if (section.earlier() != null) {
        paths.addAll(section.earlier());
      }
    }
    return paths;
  }

  /** Empty when nobody has said yet what the section has. */
  Optional<Section> find(long number) {
    Section kept = known.get(number);
    return kept != null ? Optional.of(kept) : read(number);
  }

  /** A section that there must be. */
  Section require(long number) {
    return find(number).orElseThrow(() -> new IllegalStateException("the section " + number + " of a stream is missing"
        + " in " + folder + ": without it, it is not known which rows were read before"));
  }

  /** What the section has from now on: {@code proposed}, or what another task was quicker to say. */
  Section put(long number, Section proposed) {
    try {
      byte[] content = writer().write(path(number), proposed.bytes());
      Section section = Section.parse(content);
      known.put(number, section);
      return section;
    } catch (IOException error) {
      throw new UncheckedIOException("the section " + path(number) + " of a stream cannot be written", error);
    }
  }

  private Optional<Section> read(long number) {
    try {
      byte[] content = writer().read(path(number));
      if (content == null) {
        return Optional.empty();
      }
      Section section = Section.parse(content);
      known.put(number, section);
      return Optional.of(section);
    } catch (IOException error) {
      throw new UncheckedIOException("the section " + path(number) + " of a stream cannot be read", error);
    }
  }

  private FirstWriter writer() throws IOException {
    return new FirstWriter(folder.getFileSystem(settings));
  }

  private Path path(long number) {
    return new Path(folder, Long.toString(number));
  }
}
