package io.penstock.kafka.marks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Random producers that run, stop, are rescaled, and a reader with random batches: no unread row lies below the bound,
 * and when all is read and said the bound is as late as the slowest producer's last word.
 */
class ProducersAndReaderTest {
  private static final int PARTITIONS = 3;
  private static final int STEPS = 400;

  private final ProducerMarks marks = new ProducerMarks();
  private final List<List<Long>> log = new ArrayList<>();
  private final long[] read = new long[PARTITIONS];
  private final List<Mark> said = new ArrayList<>();
  private final List<Writer> writers = new ArrayList<>();
  private Random random;
  private int generation;
  private int known;
  private long watermark = Long.MIN_VALUE;

  /** A producer with rows in order of time. {@code time}: all its later rows are at or after it. */
  private static final class Writer {
    final Mark.Producer producer;
    long time;

    Writer(Mark.Producer producer, long time) {
      this.producer = producer;
      this.time = time;
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
  void noRowIsLateAndTheReaderGetsOn(int seed) {
    random = new Random(seed);
    for (int partition = 0; partition < PARTITIONS; partition++) {
      log.add(new ArrayList<>());
    }
    begin(1 + random.nextInt(4), 0);
    for (int step = 0; step < STEPS; step++) {
      int dice = random.nextInt(100);
      if (dice < 2) {
        rescale();
      } else if (dice < 60) {
        write(writers.get(random.nextInt(writers.size())));
      } else {
        readBatch();
      }
    }
    writers.forEach(this::write);
    for (int partition = 0; partition < PARTITIONS; partition++) {
      read[partition] = log.get(partition).size();
    }
    follow();
    long slowest = writers.stream().mapToLong(writer -> writer.time).min().orElseThrow();
    assertEquals(slowest, marks.bound(name -> false).orElseThrow().millis(), "seed " + seed);
  }

  private void begin(int count, long time) {
    generation++;
    writers.clear();
    for (int index = 0; index < count; index++) {
      writers.add(new Writer(new Mark.Producer("job", generation, index, count), time));
    }
  }

  /** The new producers read on where the old ones stopped, so some of their rows are as old as the slowest's. */
  private void rescale() {
    begin(1 + random.nextInt(4), writers.stream().mapToLong(writer -> writer.time).min().orElseThrow());
  }

  private void write(Writer writer) {
    Map<Integer, Long> ends = new HashMap<>();
    for (int row = random.nextInt(6); row > 0; row--) {
      int partition = random.nextInt(PARTITIONS);
      writer.time += random.nextInt(50);
      log.get(partition).add(writer.time);
      ends.put(partition, (long) log.get(partition).size());
    }
    said.add(new Mark(writer.producer, OptionalLong.of(writer.time), Mark.UNREAD, false, ends));
  }

  private void readBatch() {
    for (int partition = 0; partition < PARTITIONS; partition++) {
      int left = log.get(partition).size() - (int) read[partition];
      for (int rows = random.nextInt(left + 1); rows > 0; rows--) {
        long row = log.get(partition).get((int) read[partition]++);
        assertTrue(row >= watermark, "a row at " + row + " is late against " + watermark);
      }
    }
    follow();
    marks.bound(name -> false).ifPresent(bound -> watermark = Math.max(watermark, bound.millis()));
  }

  private void follow() {
    while (known < said.size()) {
      marks.add(known, said.get(known));
      known++;
    }
    Map<Integer, Long> ends = new HashMap<>();
    for (int partition = 0; partition < PARTITIONS; partition++) {
      ends.put(partition, read[partition]);
    }
    marks.advance(ends);
  }
}
