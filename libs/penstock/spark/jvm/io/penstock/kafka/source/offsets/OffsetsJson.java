package io.penstock.kafka.source.offsets;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Offsets in the JSON form of Spark's checkpoint: {@code {"topic":{"0":123,"1":456}}}. */
public final class OffsetsJson {
  private static final ObjectMapper JSON = new ObjectMapper();

  private OffsetsJson() {}

  /** Parses offsets. Raises IllegalArgumentException with a message that begins with {@code what}. */
  public static Map<TopicPartition, Long> parse(String text, String what) {
    JsonNode topics = read(text, what);
    Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      for (Map.Entry<String, JsonNode> entry : object(topic.getValue(), text, what).properties()) {
        int partition = partition(entry.getKey(), text, what);
        offsets.put(new TopicPartition(topic.getKey(), partition), offset(entry.getValue(), text, what));
      }
    }
    return offsets;
  }

  public static String format(Map<TopicPartition, Long> offsets) {
    ObjectNode topics = JSON.createObjectNode();
    offsets.forEach(
        (partition, offset) -> {
          JsonNode known = topics.get(partition.topic());
          ObjectNode topic = known == null ? topics.putObject(partition.topic()) : (ObjectNode) known;
          topic.put(Integer.toString(partition.partition()), offset);
        });
    return topics.toString();
  }

  private static JsonNode read(String text, String what) {
    try {
      return object(JSON.readTree(text), text, what);
    } catch (JsonProcessingException error) {
      throw wrong(text, what, error);
    }
  }

  private static JsonNode object(JsonNode node, String text, String what) {
    if (node == null || !node.isObject()) {
      throw wrong(text, what, null);
    }
    return node;
  }

  private static int partition(String name, String text, String what) {
    try {
      return Integer.parseInt(name);
    } catch (NumberFormatException error) {
      throw wrong(text, what, error);
    }
  }

  private static long offset(JsonNode value, String text, String what) {
    if (!value.canConvertToLong() || !value.isIntegralNumber()) {
      throw wrong(text, what, null);
    }
    return value.asLong();
  }

  private static IllegalArgumentException wrong(String text, String what, Exception cause) {
    String form = "{\"topic\":{\"0\":123,\"1\":456}}";
    return new IllegalArgumentException(what + ": must be offsets such as " + form + ", not " + text, cause);
  }
}
