package io.penstock.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SectionLogTest {
  @TempDir
  Path folder;

  private SectionLog log() {
    return new SectionLog(folder.resolve("g1/orders").toUri().toString(), new Configuration());
  }

  @Test
  void ofSeveralWritersOneSaysWhatASectionHas() throws Exception {
    ExecutorService writers = Executors.newFixedThreadPool(8);
    CountDownLatch together = new CountDownLatch(8);
    List<Future<Section>> told = IntStream.range(0, 8).mapToObj(writer -> writers.submit(() -> {
      SectionLog own = log();
      together.countDown();
      together.await();
      return own.put(1, Section.ofDelta("end " + writer));
    })).toList();
    Set<Section> all = told.stream().map(SectionLogTest::result).collect(Collectors.toSet());
    writers.shutdown();
    assertEquals(Set.of(log().require(1)), all);
    assertEquals(List.of("1"), names());
  }

  @Test
  void aWriterThatIsLateTakesOverWhatIsThere() {
    SectionLog late = log();
    assertEquals(Optional.empty(), late.find(3));
    Section first = log().put(3, Section.ofDelta("first"));
    assertEquals(first, late.put(3, Section.ofDelta("late")));
    assertEquals(Optional.of(first), late.find(3));
  }

  @Test
  void aWriterThatDiesBeforeItsFileHasItsNameLeavesNothing() throws IOException {
    Files.createDirectories(folder.resolve("g1/orders"));
    Files.writeString(folder.resolve("g1/orders/.1.died.tmp"), "{\"del");
    assertEquals(Optional.empty(), log().find(1));
    assertEquals("second", log().put(1, Section.ofDelta("second")).delta());
  }

  @Test
  void aSectionThatIsMissingIsAnError() {
    assertTrue(assertThrows(IllegalStateException.class, () -> log().require(7)).getMessage().contains("section 7"));
  }

  @Test
  void filesAreKeptWithTheirTimeAndSize() {
    Section section = Section.ofFolder(List.of(file("file:/in/a b.json")), List.of("file:/in/0")).withKeys("{}");
    log().put(64, section);
    assertEquals(section, log().require(64));
  }

  @Test
  void fewSectionsLeadToAllFilesAndNoneListsAllOfThem() throws IOException {
    int last = 130;
    for (long number = 1; number <= last; number++) {
      long span = SectionLog.span(number);
      List<String> earlier = span > 1 ? log().files(number - span, number) : null;
      log().put(number, Section.ofFolder(List.of(file(Long.toString(number))), earlier));
    }
    assertEquals(63, log().require(128).earlier().size());
    for (long number = 1; number < 128; number++) {
      if (number != 64) {
        Files.delete(folder.resolve("g1/orders/" + number));
      }
    }
    Set<String> all = LongStream.rangeClosed(1, last).mapToObj(Long::toString).collect(Collectors.toSet());
    assertEquals(all, Set.copyOf(log().files(0, last + 1)));
    assertEquals(Set.of("129", "130"), Set.copyOf(log().files(128, last + 1)));
  }

  @Test
  void aSectionOfAHigherPowerKnowsThoseOfTheLower() {
    assertEquals(List.of(1L, 64L, 64L, 4096L, 64L, 262_144L),
        LongStream.of(63, 64, 128, 4096, 4160, 262_144).mapToObj(SectionLog::span).toList());
    log().put(4096, Section.ofFolder(List.of(file("b")), List.of("a")));
    log().put(4160, Section.ofFolder(List.of(file("d")), List.of("c")));
    log().put(4161, Section.ofFolder(List.of(file("e")), null));
    assertEquals(Set.of("a", "b", "c", "d", "e"), Set.copyOf(log().files(0, 4162)));
  }

  @Test
  void aFileIsComparedByItsSizeAndSecond() {
    Section.ListedFile listed = new Section.ListedFile("file:/in/0", 1_700_000_000_123L, 9);
    assertTrue(new Section.ListedFile("file:/in/0", 1_700_000_000_000L, 9).isAsListed(listed));
    assertFalse(new Section.ListedFile("file:/in/0", 1_700_000_001_123L, 9).isAsListed(listed));
    assertFalse(new Section.ListedFile("file:/in/0", 1_700_000_000_123L, 8).isAsListed(listed));
  }

  private static Section.ListedFile file(String path) {
    return new Section.ListedFile(path, 5, 9);
  }

  private List<String> names() throws IOException {
    try (var files = Files.list(folder.resolve("g1/orders"))) {
      return files.map(file -> file.getFileName().toString()).toList();
    }
  }

  private static Section result(Future<Section> section) {
    try {
      return section.get();
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
