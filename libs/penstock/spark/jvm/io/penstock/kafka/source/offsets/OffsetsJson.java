package io.penstock.kafka.source.offsets;

import com.fasterxml.jackson.annotation.JsonSetter;
import com.fasterxml.jackson.annotation.Nulls;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Offsets in the JSON form of Spark's checkpoint: {@code {"topic":{"0":123,"1":456}}}. */
public final class OffsetsJson {
  private static final TypeReference<Map<String, Map<Integer, Long>>> BY_TOPIC = new TypeReference<>() {};
  private static final JsonMapper JSON = JsonMapper.builder()
      .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
      .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
      .defaultSetterInfo(JsonSetter.Value.forContentNulls(Nulls.FAIL))
      .build();

  private OffsetsJson() {}

  /** Parses offsets. Raises IllegalArgumentException with a message that begins with {@code what}. */
  public static Map<TopicPartition, Long> parse(String text, String what) {
    Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
    byTopic(text, what).forEach((topic, partitions) -> partitions.forEach(
        (partition, offset) -> offsets.put(new TopicPartition(topic, partition), offset)));
    return offsets;
  }

  public static String format(Map<TopicPartition, Long> offsets) {
    Map<String, Map<Integer, Long>> topics = new LinkedHashMap<>();
    offsets.forEach((partition, offset) -> topics
        .computeIfAbsent(partition.topic(), fresh -> new LinkedHashMap<>())
        .put(partition.partition(), offset));
    return JSON.valueToTree(topics).toString();
  }

  private static Map<String, Map<Integer, Long>> byTopic(String text, String what) {
    String refusal = what + ": must be offsets such as {\"topic\":{\"0\":123,\"1\":456}}, not " + text;
    try {
      Map<String, Map<Integer, Long>> topics = JSON.readValue(text, BY_TOPIC);
      if (topics != null) {
        return topics;
      }
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(refusal, error);
    }
    throw new IllegalArgumentException(refusal);
  }
}
