package io.penstock.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
    Section section = new Section(null, List.of(new Section.ListedFile("file:/in/a b.json", 5, 9)), List.of("file:/in/0"));
    log().put(64, section);
    assertEquals(section, log().require(64));
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
