package io.penstock.kafka.marks;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;

/**
 * Jobs whose tasks pass rows of their inputs on into one topic, at random: they read, stand still, are idle, are
 * rescaled, end and begin again. Rows come into all inputs as time passes, each at most {@link #DISORDER} old, except in a
 * job whose event time stands still for a while: its tasks speak all the time, and come no further.
 */
final class JobsOfOneTopic {
  static final int PARTITIONS = 3;
  static final int DISORDER = 40;
  private static final int JOBS = 3;
  private static final int INPUTS = 4;

  final List<List<Row>> log = new ArrayList<>();
  final List<Mark> said = new ArrayList<>();
  final Map<String, Task> tasks = new HashMap<>();
  final List<Job> jobs = new ArrayList<>();
  long clock = 1000;
  private final Random random;
  private boolean quiet;

  /** A row of the topic, and who wrote it. */
  record Row(long millis, Task by) {}

  private record Unread(long clock, long millis) {}

  /**
   * {@code time}: the event time of the newest row that it has read. {@code said}: the same as of its last word.
   * {@code excuse}: rows before it may be late, since a reader did not wait.
   */
  static final class Task {
    final Job job;
    final Mark.Producer producer;
    private final List<Deque<Unread>> inputs;
    private long asked = Mark.UNREAD;
    private boolean hasReadAllSince;
    private boolean hasSpoken;
    long time;
    long said;
    long excuse;
    boolean isAtEnd;

    Task(Job job, Mark.Producer producer, List<Deque<Unread>> inputs, long time, long excuse) {
      this.job = job;
      this.producer = producer;
      this.inputs = inputs;
      this.time = time;
      this.said = time;
      this.excuse = excuse;
    }

    /** Rows before this time may be late: those of the task, and of those that took its place. */
    void excuse(long millis) {
      excuse = Math.max(excuse, millis);
      for (Task task : job.tasks.contains(this) ? List.<Task>of() : job.tasks) {
        task.excuse = Math.max(task.excuse, millis);
      }
    }

    /** As a balanced source reads: the oldest row of all inputs. Null when there is none. */
    private Unread next() {
      Deque<Unread> oldest = null;
      for (Deque<Unread> input : inputs) {
        if (!input.isEmpty() && (oldest == null || input.peek().clock < oldest.peek().clock)) {
          oldest = input;
        }
      }
      return oldest == null ? null : oldest.poll();
    }

    private boolean hasReadAll() {
      return inputs.stream().allMatch(Deque::isEmpty);
    }
  }

  /** Its tasks; none once it has ended. {@code lastThatSpoke}: those of its newest generation with a mark. */
  static final class Job {
    private final String name;
    private final List<Deque<Unread>> inputs = new ArrayList<>();
    final List<Task> tasks = new ArrayList<>();
    List<Task> lastThatSpoke = List.of();
    private int generation;
    private long standsAt = Long.MAX_VALUE;

    Job(String name) {
      this.name = name;
      for (int input = 0; input < INPUTS; input++) {
        inputs.add(new ArrayDeque<>());
      }
    }
  }

  JobsOfOneTopic(Random random) {
    this.random = random;
    for (int partition = 0; partition < PARTITIONS; partition++) {
      log.add(new ArrayList<>());
    }
    for (int number = 0; number < JOBS; number++) {
      jobs.add(new Job("job" + number));
      begin(jobs.get(number));
    }
  }

  /** Rows may come, and may not for a while. */
  void timePasses() {
    clock += random.nextInt(50);
    quiet = random.nextInt(10) == 0 ? !quiet : quiet;
    for (Job job : jobs) {
      if (random.nextInt(40) == 0) {
        job.standsAt = job.standsAt == Long.MAX_VALUE ? clock : Long.MAX_VALUE;
      }
      long newest = Math.min(clock, job.standsAt);
      for (int rows = quiet ? 0 : random.nextInt(4); rows > 0; rows--) {
        job.inputs.get(random.nextInt(INPUTS)).add(new Unread(clock, newest - random.nextInt(DISORDER)));
      }
    }
  }

  void everyInputGetsARow() {
    for (Job job : jobs) {
      job.standsAt = Long.MAX_VALUE;
      for (Deque<Unread> input : job.inputs) {
        clock += 1 + random.nextInt(50);
        input.add(new Unread(clock, clock));
      }
    }
  }

  /** One of the tasks that run, or null. */
  Task any() {
    List<Task> running = jobs.stream().flatMap(job -> job.tasks.stream()).toList();
    return running.isEmpty() ? null : running.get(random.nextInt(running.size()));
  }

  /** A trigger: a batch of at most so many rows with its mark, or none, if all is read. */
  void run(Task task, int limit) {
    Map<Integer, Long> ends = new HashMap<>();
    Unread row = null;
    for (int rows = 0; rows < limit && (row = task.next()) != null; rows++) {
      int partition = random.nextInt(PARTITIONS);
      task.time = Math.max(task.time, row.millis);
      log.get(partition).add(new Row(row.millis, task));
      ends.put(partition, (long) log.get(partition).size());
    }
    task.hasReadAllSince = ends.isEmpty() && task.hasReadAll();
    if (!ends.isEmpty() || !task.hasSpoken) {
      say(task, Mark.UNREAD, ends);
    }
  }

  /**
   * An idle task looks at the marks. If its last trigger since then found nothing to read, it says so; not one whose
   * next rows may be old, for who says so vouches that they are not.
   */
  void idle(Task task) {
    if (task.job.standsAt != Long.MAX_VALUE) {
      return;
    }
    if (task.asked == Mark.UNREAD) {
      task.asked = said.size();
      task.hasReadAllSince = false;
    } else if (task.hasReadAllSince) {
      say(task, task.asked, Map.of());
    }
  }

  /** The new tasks read on where the old ones stopped: they may have rows as old as the slowest one's. */
  void rescale(Job job) {
    long time = job.tasks.stream().mapToLong(task -> task.time).min().orElseThrow();
    long excuse = job.tasks.stream().mapToLong(task -> task.excuse).max().orElseThrow();
    deal(job, time, excuse);
  }

  /** Its last rows are written; it reads no more. */
  void end(Job job) {
    job.tasks.clear();
    var last = new Mark.Producer(job.name, job.generation, 0, 1);
    said.add(new Mark(last, OptionalLong.empty(), Mark.UNREAD, true, Map.of()));
  }

  /** It reads what comes from now on, and says at once that it is there. */
  void begin(Job job) {
    job.inputs.forEach(Deque::clear);
    job.standsAt = Long.MAX_VALUE;
    deal(job, 0, 0);
    job.tasks.forEach(task -> run(task, 0));
  }

  /** Whether no row of the task is after these places of the log. */
  boolean isRead(Task task, long[] places) {
    for (int partition = 0; partition < PARTITIONS; partition++) {
      List<Row> rows = log.get(partition);
      if (rows.subList((int) places[partition], rows.size()).stream().anyMatch(row -> row.by == task)) {
        return false;
      }
    }
    return true;
  }

  private void deal(Job job, long time, long excuse) {
    int count = 1 + random.nextInt(INPUTS);
    job.generation++;
    job.tasks.clear();
    for (int index = 0; index < count; index++) {
      var producer = new Mark.Producer(job.name, job.generation, index, count);
      var inputs = job.inputs.subList(index * INPUTS / count, (index + 1) * INPUTS / count);
      Task task = new Task(job, producer, inputs, time, excuse);
      job.tasks.add(task);
      tasks.put(producer.name(), task);
    }
  }

  private void say(Task task, long readBefore, Map<Integer, Long> ends) {
    task.asked = Mark.UNREAD;
    task.hasSpoken = true;
    task.said = task.time;
    task.job.lastThatSpoke = List.copyOf(task.job.tasks);
    task.isAtEnd = readBefore != Mark.UNREAD;
    said.add(new Mark(task.producer, OptionalLong.of(task.time), readBefore, false, ends));
  }
}
