package io.penstock.streams;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.List;

/**
 * What a section of a stream has.
 *
 * @param delta of a Delta table: where the section ends, as Delta's source writes it; it begins where the one before
 *     ends
 * @param files of a folder: the files of the section
 * @param earlier of a folder, in every {@link SectionLog#COMPACT_EVERY}th section: the paths of the files of the
 *     {@link SectionLog#span} - 1 sections before
 * @param keys of a stream by key columns, in the first: how all tasks read the keys (`penstock.spark.stream_keys`)
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Section(
    @JsonProperty("delta") String delta, @JsonProperty("files") List<ListedFile> files,
    @JsonProperty("earlier") List<String> earlier, @JsonProperty("keys") String keys) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** {@code time}: of the last change, in milliseconds since 1970; {@code bytes}: its size. */
  record ListedFile(
      @JsonProperty("path") String path, @JsonProperty("time") long time, @JsonProperty("bytes") long bytes) {
    private static final long SECOND = 1000;

    /** Whether it is as it was listed. Some stores say seconds of a file, and milliseconds in a list of files. */
    boolean isAsListed(ListedFile listed) {
      return path.equals(listed.path) && bytes == listed.bytes && time / SECOND == listed.time / SECOND;
    }
  }

  static Section ofDelta(String end) {
    return new Section(end, null, null, null);
  }

  static Section ofFolder(List<ListedFile> files, List<String> earlier) {
    return new Section(null, files, earlier, null);
  }

  Section withKeys(String keys) {
    return new Section(delta, files, earlier, keys);
  }

  byte[] bytes() throws IOException {
    return JSON.writeValueAsBytes(this);
  }

  static Section parse(byte[] content) throws IOException {
    return JSON.readValue(content, Section.class);
  }
}
