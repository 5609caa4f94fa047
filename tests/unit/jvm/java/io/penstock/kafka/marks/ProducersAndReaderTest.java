package io.penstock.kafka.marks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.marks.JobsOfOneTopic.Job;
import io.penstock.kafka.marks.JobsOfOneTopic.Row;
import io.penstock.kafka.marks.JobsOfOneTopic.Task;
import io.penstock.kafka.marks.ProducerMarks.Bound;
import io.penstock.kafka.source.hold.Patience;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Random jobs that write to one topic, and a reader with random batches. No row is late, except rows of a task that the
 * reader did not wait for: it came no further for too long, or had said that all its inputs were read while the reader was
 * idle. Nobody is waited for any longer, whatever it says meanwhile. When all is read and said, the bound is as late as the slowest task's last word.
 */
class ProducersAndReaderTest {
  private static final int STEPS = 800;
  private static final long PATIENCE_MILLIS = 200;
  private static final long IDLE_MILLIS = 100;

  private final ProducerMarks marks = new ProducerMarks();
  private final long[] read = new long[JobsOfOneTopic.PARTITIONS];
  private JobsOfOneTopic world;
  private Patience patience;
  private final Map<String, Long> givenUpAt = new HashMap<>();
  private Optional<Bound> awaited = Optional.empty();
  private long awaitedSince;
  private Random random;
  private boolean isPatient;
  private boolean isSlow;
  private int known;
  private long newestRow;
  private long lastRowsAt;
  private long watermark = Long.MIN_VALUE;

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
      27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40})
  void noRowIsLateAndTheReaderGetsOn(int seed) {
    random = new Random(seed);
    world = new JobsOfOneTopic(random);
    isPatient = seed % 2 != 0;
    patience = new Patience(isPatient ? OptionalLong.empty() : OptionalLong.of(PATIENCE_MILLIS));
    for (int step = 0; step < STEPS; step++) {
      step(random.nextInt(100));
    }
    world.everyInputGetsARow();
    List<Task> running = running();
    running.forEach(task -> world.run(task, Integer.MAX_VALUE));
    readAll();
    OptionalLong slowest = running.stream().mapToLong(task -> task.time).min();
    assertEquals(slowest, millis(marks.bound(name -> false)), "seed " + seed);
    assertEquals(List.of(), patience.givenUp(), "all have come further");
    running.forEach(world::idle);
    running.forEach(task -> world.run(task, 1));
    running.forEach(world::idle);
    readAll();
    assertTrue(marks.boundWhenIdle(name -> false).isEmpty(), "seed " + seed);
    OptionalLong latest = running.isEmpty() ? OptionalLong.empty() : marks.latestMillis();
    assertEquals(latest, millis(marks.bound(name -> false)), "seed " + seed);
  }

  private void step(int dice) {
    if (dice < 3) {
      change(world.jobs.get(random.nextInt(world.jobs.size())));
    } else if (dice < 80) {
      work(dice);
    } else if (dice < 81) {
      isSlow = !isSlow;
    } else if (dice < 88 || isSlow) {
      readBatch();
    } else {
      readAll();
      beIdle();
    }
  }

  private void work(int dice) {
    Task task = world.any();
    if (dice % 4 == 0 || task == null) {
      world.timePasses();
    } else if (dice % 4 == 1) {
      world.idle(task);
    } else {
      world.run(task, random.nextInt(12));
    }
  }

  private void change(Job job) {
    if (job.tasks.isEmpty()) {
      world.begin(job);
    } else if (random.nextInt(3) == 0) {
      world.end(job);
    } else {
      world.rescale(job);
    }
  }

  private void readBatch() {
    for (int partition = 0; partition < read.length; partition++) {
      int left = world.log.get(partition).size() - (int) read[partition];
      readSome(partition, random.nextInt(isSlow ? Math.min(left + 1, 2) : left + 1));
    }
    follow();
  }

  private void readAll() {
    for (int partition = 0; partition < read.length; partition++) {
      readSome(partition, world.log.get(partition).size() - (int) read[partition]);
    }
    follow();
  }

  private void readSome(int partition, int rows) {
    for (int row = 0; row < rows; row++) {
      Row next = world.log.get(partition).get((int) read[partition]++);
      assertTrue(next.millis() >= watermark || next.millis() < next.by().excuse,
          "a row of " + next.by().producer + " at " + next.millis() + " is late against " + watermark);
      newestRow = Math.max(newestRow, next.millis());
      lastRowsAt = world.clock;
    }
  }

  /** As a reader does after each batch: the watermark is that of its rows, bounded by whom it waits for. */
  private void follow() {
    while (known < world.said.size()) {
      marks.add(known, world.said.get(known));
      known++;
    }
    Map<Integer, Long> ends = new HashMap<>();
    for (int partition = 0; partition < read.length; partition++) {
      ends.put(partition, read[partition]);
    }
    marks.advance(ends);
    Optional<Bound> waitsFor = patience.apply(marks, world.clock * 1_000_000);
    requirePatienceToEnd(waitsFor);
    OptionalLong bound = millis(waitsFor);
    advance(Math.min(newestRow, bound.orElse(Long.MAX_VALUE)));
    excuseGivenUp();
  }

  /**
   * A trigger without rows: while it looks at the marks, tasks go on. When nothing came for a while the watermark
   * advances with the clock, as far as tasks that are not at their end let it.
   */
  private void beIdle() {
    for (int others = random.nextInt(12); others > 0; others--) {
      work(random.nextInt(80));
    }
    follow();
    long elapsed = world.clock - lastRowsAt;
    if (elapsed >= IDLE_MILLIS) {
      OptionalLong bound = millis(marks.boundWhenIdle(patience::isGivenUp));
      advance(Math.min(newestRow + elapsed, bound.orElse(Long.MAX_VALUE)));
      world.jobs.stream().flatMap(job -> job.lastThatSpoke.stream())
          .filter(task -> task.isAtEnd && world.isRead(task, read)).forEach(task -> task.excuse(watermark));
      excuseGivenUp();
    }
  }

  private void requirePatienceToEnd(Optional<Bound> bound) {
    if (!millis(bound).equals(millis(awaited))
        || !bound.map(Bound::producer).equals(awaited.map(Bound::producer))) {
      awaitedSince = world.clock;
    }
    awaited = bound;
    long waited = world.clock - awaitedSince;
    assertTrue(isPatient || bound.filter(Bound::silent).isEmpty() || waited < PATIENCE_MILLIS,
        bound + " has been waited for for " + waited + " ms");
  }

  /** All their rows are read when they are given up, and they count again as soon as they say that they came further. */
  private void excuseGivenUp() {
    givenUpAt.keySet().retainAll(patience.givenUp());
    for (Task task : patience.givenUp().stream().map(world.tasks::get).toList()) {
      boolean isNew = !givenUpAt.containsKey(task.producer.name());
      assertTrue(!isNew || world.isRead(task, read), task.producer + " is given up, and its rows are still to be read");
      long said = givenUpAt.computeIfAbsent(task.producer.name(), name -> task.said);
      assertTrue(said == task.said, task.producer + " has come further, and is not waited for");
      task.excuse(watermark);
    }
  }

  private void advance(long time) {
    watermark = Math.max(watermark, time == ProducerMarks.NOTHING_YET ? time : time - JobsOfOneTopic.DISORDER);
  }

  private List<Task> running() {
    return world.jobs.stream().flatMap(job -> job.tasks.stream()).toList();
  }

  private static OptionalLong millis(Optional<Bound> bound) {
    return bound.map(each -> OptionalLong.of(each.millis())).orElse(OptionalLong.empty());
  }
}
