package io.penstock.kafka.source.offsets;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.common.TopicPartition;

/** The offset log of the leader's checkpoint: the ends of all batches that are not purged. */
public final class LeaderOffsetLog {
  private static final String VERSION = "v1";
  private static final int LINES_BEFORE_SOURCES = 2;

  private final Path folder;
  private final Configuration settings;
  private final int source;
  private final TreeMap<Long, Map<TopicPartition, Long>> ends = new TreeMap<>();

  /**
   * @param folder Hadoop path of the checkpoint's {@code offsets}
   * @param source which of the leader's sources, from 0 on
   */
  public LeaderOffsetLog(String folder, int source, Configuration settings) {
    this.folder = new Path(folder);
    this.source = source;
    this.settings = settings;
  }

  /**
   * The ends by batch id. Raises IllegalStateException when the log has another format or lacks the source, and
   * UncheckedIOException when the log cannot be read.
   */
  public TreeMap<Long, Map<TopicPartition, Long>> read() {
    try {
      FileSystem files = folder.getFileSystem(settings);
      for (FileStatus status : list(files)) {
        String name = status.getPath().getName();
        if (name.matches("[0-9]+") && !ends.containsKey(Long.parseLong(name))) {
          take(files, Long.parseLong(name), status.getPath());
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException("option followOffsetLog: cannot read " + folder, error);
    }
    return ends;
  }

  private FileStatus[] list(FileSystem files) throws IOException {
    try {
      return files.listStatus(folder);
    } catch (FileNotFoundException error) {
      // The leader has not planned its first batch yet.
      return new FileStatus[0];
    }
  }

  private void take(FileSystem files, long batch, Path path) throws IOException {
    try (InputStream input = files.open(path)) {
      String text = new String(input.readAllBytes(), StandardCharsets.UTF_8);
      ends.put(batch, sourceEnds(text, source, folder + " batch " + batch));
    } catch (FileNotFoundException error) {
      // The leader purged the entry after it was listed. LeaderBatches checks whether the follower needs it.
    }
  }

  /** Parses the ends of one source from the text of a log entry. {@code what} names the entry in errors. */
  static Map<TopicPartition, Long> sourceEnds(String text, int source, String what) {
    List<String> lines = text.lines().toList();
    if (lines.isEmpty() || !lines.get(0).equals(VERSION)) {
      throw new IllegalStateException("option followOffsetLog: " + what + " is not of version " + VERSION);
    }
    if (lines.size() <= LINES_BEFORE_SOURCES + source) {
      throw new IllegalStateException("option followSource: " + what + " has no source " + source);
    }
    return OffsetsJson.parse(lines.get(LINES_BEFORE_SOURCES + source), "option followSource: " + what);
  }
}
