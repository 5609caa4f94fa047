package io.penstock.sources;

import io.penstock.checkpoint.BatchHook;
import io.penstock.spark42.RunningQuery;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;

/**
 * The malformed records of one run of a task. Before a batch is committed, its malformed records are in the dead-letter
 * topic.
 *
 * <p>The query itself only counts them ({@link RecordFilter}). If a batch has some, its offsets are read once more. So
 * they are also read if this run repeats a batch that an earlier run has begun: its sink may skip the batch, and then
 * nothing is counted.
 */
public final class MalformedRecords implements BatchHook {
  private static final int FEWEST_ROWS = 100;

  private final List<DeadLetters> inputs = new CopyOnWriteArrayList<>();
  private volatile long plannedHere = -1;

  /**
   * Adds an input. The columns are over Kafka's columns of a record; {@code kind} may use {@code decoded}.
   *
   * @param decoder what decodes the values; null where Spark does
   * @param kafka how the input is read
   * @param lettersKafka how the Kafka of the dead letters is reached
   */
  public void add(
      String input, InputTopics topics, RecordFilter filter, Column decoded, Column kind, Column reason, RecordDecoder decoder,
      Map<String, String> kafka, Map<String, String> lettersKafka, String job, String letters) {
    inputs.add(new DeadLetters(
        input, topics, filter, decoded, kind, reason, decoder, Map.copyOf(kafka), Map.copyOf(lettersKafka), job,
        letters));
  }

  /** How many malformed records the query's Spark tasks have seen since its start. */
  public long count() {
    return inputs.stream().mapToLong(input -> input.filter().malformed()).sum();
  }

  /** What the query's Spark tasks have seen since its start, by input, as they stand. */
  public Map<String, Seen> seen() {
    Map<String, Seen> found = new LinkedHashMap<>();
    for (DeadLetters input : inputs) {
      RecordFilter filter = input.filter();
      found.put(input.name(), new Seen(filter.rows(), filter.malformed(), filter.withoutTime()));
    }
    return found;
  }

  /** Records of an input, those that were malformed, and those that were whole and had no event time. */
  public record Seen(long records, long malformed, long withoutTime) {}

  /** Whether there is an input whose records are decoded. */
  public boolean counts() {
    return !inputs.isEmpty();
  }

  @Override
  public void planned(long batch) {
    plannedHere = batch;
  }

  @Override
  public void beforeCommit(long batch) {
    for (DeadLetters input : inputs) {
      if (input.hasNews() || batch != plannedHere) {
        write(input);
      }
    }
  }

  /** The batch is whole now, so the query may end here. */
  @Override
  public void afterCommit(long batch) {
    for (DeadLetters input : inputs) {
      input.nextBatch();
      input.requireFew(FEWEST_ROWS);
    }
  }

  private void write(DeadLetters input) {
    if (input.filter().writesLetters()) {
      RunningQuery query = RunningQuery.ofThisThread().orElseThrow();
      for (Range range : ranges(query, input.topics())) {
        input.write(SparkSession.active(), range.start(), range.end());
      }
    }
  }

  private record Range(String start, String end) {}

  /** Several sources may read the input, each to its own offsets. */
  private static Set<Range> ranges(RunningQuery query, InputTopics topics) {
    List<String> starts = query.startOffsets();
    List<String> ends = query.endOffsets();
    Set<Range> found = new LinkedHashSet<>();
    for (int source = 0; source < ends.size(); source++) {
      if (topics.areIn(ends.get(source)) && !starts.get(source).equals(ends.get(source))) {
        found.add(new Range(starts.get(source), ends.get(source)));
      }
    }
    return found;
  }
}
