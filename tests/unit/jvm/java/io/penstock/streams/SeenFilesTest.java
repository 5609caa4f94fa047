package io.penstock.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SeenFilesTest {
  private static final long SECTIONS = 130;

  @TempDir
  Path folder;

  private SectionLog log() {
    return new SectionLog(folder.toUri().toString(), new Configuration());
  }

  private static String file(long section) {
    return "file:/in/" + section;
  }

  private void write() {
    SeenFiles seen = new SeenFiles();
    SectionLog log = log();
    for (long number = SectionLog.FIRST; number <= SECTIONS; number++) {
      seen.seeTo(number, log);
      List<Section.ListedFile> files = List.of(new Section.ListedFile(file(number), number, 1));
      log.put(number, new Section(null, files, seen.earlierOf(number)));
    }
  }

  @Test
  void aStartReadsNoSectionBeforeTheLastThatKnowsOfAll() throws IOException {
    write();
    for (long number = SectionLog.FIRST; number < 128; number++) {
      Files.delete(folder.resolve(Long.toString(number)));
    }
    SeenFiles seen = new SeenFiles();
    seen.seeTo(SECTIONS + 1, log());
    assertEquals(SECTIONS, LongStream.rangeClosed(0, SECTIONS + 1).filter(each -> seen.has(file(each))).count());
    SeenFiles tooFew = new SeenFiles();
    assertThrows(IllegalStateException.class, () -> tooFew.seeTo(128, log()));
  }

  @Test
  void whatWasSeenGrowsWithTheSections() {
    write();
    SeenFiles seen = new SeenFiles();
    SectionLog log = log();
    for (long number : new long[] {1, 64, 65, 66, 129}) {
      seen.seeTo(number, log);
      assertEquals(number - 1, LongStream.rangeClosed(1, SECTIONS).filter(each -> seen.has(file(each))).count());
    }
    assertNull(seen.earlierOf(129));
    assertEquals(63, log.require(64).earlier().size());
  }
}
