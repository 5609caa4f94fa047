package io.penstock.kafka.marks;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * What a producer says of itself with each of its transactions: how far in event time it has come. Pure.
 *
 * @param producer who says it
 * @param time milliseconds since 1970 up to which it has come, before any delay; 0: it has no row yet. Empty: its rows
 *     have no event time that it knows, so nobody can wait for it
 * @param readBefore it had read all its inputs after all marks below this offset of the marks topic were there; -1: it
 *     does not say so
 * @param ended no producer of its group writes any more, up to its generation
 * @param ends the offset after its last row, by partition that the transaction wrote to
 */
public record Mark(
    Producer producer, OptionalLong time, long readBefore, boolean ended, Map<Integer, Long> ends) {
  /** Not at the end of its inputs, or not known to be. */
  public static final long UNREAD = -1;

  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * One of the {@code count} producers of a group. A generation takes over the place of all earlier ones of its group.
   */
  public record Producer(String group, int generation, int index, int count) implements Serializable {
    /** The name of the producer in reports, and the key of its marks. */
    public String name() {
      return group + "/" + index + "/" + generation;
    }
  }

  public byte[] toBytes() {
    ObjectNode node = JSON.createObjectNode();
    node.put("g", producer.group).put("gen", producer.generation).put("i", producer.index).put("n", producer.count);
    time.ifPresent(millis -> node.put("t", millis));
    if (readBefore != UNREAD) {
      node.put("read", readBefore);
    }
    if (ended) {
      node.put("end", true);
    }
    ObjectNode offsets = node.putObject("at");
    ends.forEach((partition, end) -> offsets.put(Integer.toString(partition), end));
    try {
      return JSON.writeValueAsBytes(node);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Raises IllegalArgumentException for a text that no mark has. */
  public static Mark of(byte[] text) {
    try {
      JsonNode node = JSON.readTree(text);
      Producer producer = new Producer(
          required(node, "g").asText(), required(node, "gen").asInt(), required(node, "i").asInt(),
          required(node, "n").asInt());
      Map<Integer, Long> ends = new TreeMap<>();
      required(node, "at").fields().forEachRemaining(
          entry -> ends.put(Integer.valueOf(entry.getKey()), entry.getValue().asLong()));
      return new Mark(
          producer,
          node.has("t") ? OptionalLong.of(node.get("t").asLong()) : OptionalLong.empty(),
          node.has("read") ? node.get("read").asLong() : UNREAD,
          node.path("end").asBoolean(false),
          ends);
    } catch (IOException | NumberFormatException error) {
      throw new IllegalArgumentException("not a mark of a producer: " + new String(text), error);
    }
  }

  private static JsonNode required(JsonNode node, String name) {
    JsonNode found = node == null ? null : node.get(name);
    if (found == null) {
      throw new IllegalArgumentException("not a mark of a producer, since " + name + " is missing: " + node);
    }
    return found;
  }
}
