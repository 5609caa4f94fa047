package io.penstock.streams;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.stream.IntStream;
import scala.jdk.javaapi.CollectionConverters;

/** The options of a stream: its own begin with {@code penstock.}, the others are those of the source that it wraps. */
final class StreamOptions {
  private static final String OWN = "penstock.";
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Map<String, String> all = new TreeMap<>();

  StreamOptions(scala.collection.immutable.Map<String, String> parameters) {
    CollectionConverters.asJava(parameters).forEach((name, value) -> all.put(name.toLowerCase(Locale.ROOT), value));
  }

  /** Those of the source that is wrapped. */
  Map<String, String> inner() {
    Map<String, String> inner = new TreeMap<>(all);
    inner.keySet().removeIf(name -> name.startsWith(OWN));
    return inner;
  }

  String format() {
    return own("format");
  }

  String path() {
    return all.get("path");
  }

  /** The Hadoop path of the folder with the stream's sections. */
  String log() {
    return own("log");
  }

  /** What the stream is called in offsets. */
  String name() {
    return own("name");
  }

  /** The task's key groups. */
  List<Integer> keyGroups() {
    String[] bounds = own("keygroups").split("-");
    return IntStream.range(Integer.parseInt(bounds[0]), Integer.parseInt(bounds[1])).boxed().toList();
  }

  /** How many key groups the stream has. */
  int keyGroupCount() {
    return Integer.parseInt(own("keygroupcount"));
  }

  /** The columns that tell a row's key group. Empty: its file does. */
  List<String> keyColumns() {
    try {
      return JSON.readValue(own("keycolumns"), new TypeReference<>() {});
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("option penstock.keyColumns: must be a list of names", error);
    }
  }

  /** How the values of the key columns are read, as text. */
  String keys() {
    return own("keys");
  }

  /** The section that is not read any more. */
  OptionalLong stopAt() {
    String section = all.get(OWN + "stopat");
    return section == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(section));
  }

  /** How long a batch should take; empty when nothing adapts to it. */
  OptionalLong targetBatchMillis() {
    String millis = all.get(OWN + "targetbatchmillis");
    return millis == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(millis));
  }

  int maxFiles() {
    return Integer.parseInt(all.getOrDefault("maxfilespertrigger", Integer.toString(Integer.MAX_VALUE)));
  }

  long maxBytes() {
    return Long.parseLong(all.getOrDefault("maxbytespertrigger", Long.toString(Long.MAX_VALUE)));
  }

  private String own(String name) {
    String value = all.get(OWN + name);
    if (value == null) {
      throw new IllegalArgumentException("option " + OWN + name + " is missing");
    }
    return value;
  }
}
