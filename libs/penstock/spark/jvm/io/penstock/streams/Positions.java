package io.penstock.streams;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.LongStream;
import org.apache.spark.sql.execution.streaming.Offset;

/**
 * The next section of each key group, as an offset of Spark: {@code {"stream:orders#1":{"0":5,"1":5}}}, in the form of
 * Kafka's offsets, so that redistributions move key groups of streams and of topics in the same way. Pure.
 */
final class Positions extends Offset {
  private static final TypeReference<Map<String, TreeMap<Integer, Long>>> FORM = new TypeReference<>() {};
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String name;
  private final SortedMap<Integer, Long> next;

  private Positions(String name, SortedMap<Integer, Long> next) {
    this.name = name;
    this.next = next;
  }

  /** All key groups at the same section. */
  static Positions at(String name, Collection<Integer> keyGroups, long section) {
    SortedMap<Integer, Long> next = new TreeMap<>();
    keyGroups.forEach(group -> next.put(group, section));
    return new Positions(name, next);
  }

  /** Raises IllegalStateException for offsets of another stream or of other key groups. */
  static Positions parse(String text, String name, Collection<Integer> keyGroups) {
    String refusal = "expected the positions of " + name + " in the key groups " + keyGroups + ", not " + text;
    try {
      Map<String, TreeMap<Integer, Long>> streams = JSON.readValue(text, FORM);
      TreeMap<Integer, Long> next = streams.get(name);
      if (streams.size() == 1 && next != null && next.keySet().equals(new TreeSet<>(keyGroups))) {
        return new Positions(name, next);
      }
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(refusal, error);
    }
    throw new IllegalStateException(refusal);
  }

  /** The next section to read: the least one. Empty when it is not below {@code stop}. */
  OptionalLong section(OptionalLong stop) {
    long least = Collections.min(next.values());
    return stop.isPresent() && least >= stop.getAsLong() ? OptionalLong.empty() : OptionalLong.of(least);
  }

  /** The positions after {@code section}: only key groups that stand at it go on. */
  Positions after(long section) {
    SortedMap<Integer, Long> after = new TreeMap<>(next);
    after.replaceAll((group, at) -> at == section ? at + 1 : at);
    return new Positions(name, after);
  }

  /** The key groups of which a batch from here to {@code end} reads a section. */
  TreeSet<Integer> keyGroups(long section, Positions end) {
    TreeSet<Integer> groups = new TreeSet<>(next.keySet());
    groups.removeIf(group -> section < next.get(group) || section >= end.next.get(group));
    return groups;
  }

  /** The sections of which a batch from here to {@code end} reads some key groups. */
  LongStream sections(Positions end) {
    return LongStream.range(Collections.min(next.values()), Collections.max(end.next.values()))
        .filter(section -> !keyGroups(section, end).isEmpty());
  }

  @Override
  public String json() {
    return JSON.valueToTree(Map.of(name, next)).toString();
  }
}
