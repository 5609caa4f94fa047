package io.penstock.kafka.source.offsets;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
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
   * The ends of the batch of the leader with which a batch of the follower from {@code starts} on ends. Empty while the
   * leader has not planned it.
   *
   * <p>Raises IllegalStateException when the log has another format, other partitions or not the source, or when the
   * batch may have been purged; UncheckedIOException when the log cannot be read.
   */
  public Optional<Map<TopicPartition, Long>> next(Map<TopicPartition, Long> starts) {
    try {
      FileSystem files = folder.getFileSystem(settings);
      // The leader has not planned its first batch while there is no folder.
      for (FileStatus status : files.exists(folder) ? files.listStatus(folder) : new FileStatus[0]) {
        String name = status.getPath().getName();
        if (name.matches("[0-9]+") && !ends.containsKey(Long.parseLong(name))) {
          take(files, Long.parseLong(name), status.getPath());
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException("option followOffsetLog: cannot read " + folder, error);
    }
    return next(ends, starts);
  }

  private void take(FileSystem files, long batch, Path path) throws IOException {
    try (InputStream input = files.open(path)) {
      String text = new String(input.readAllBytes(), StandardCharsets.UTF_8);
      ends.put(batch, sourceEnds(text, source, folder + " batch " + batch));
    } catch (FileNotFoundException error) {
      // The leader purged the entry after it was listed. The method next checks whether the follower needs it.
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

  /**
   * The ends of the leader's first batch that ends at or beyond {@code starts} in every partition, and not exactly at
   * {@code starts}. Empty while the leader has not planned such a batch.
   *
   * @param ends the ends of the leader's batches by batch id; the oldest may have been purged
   * @throws IllegalStateException when a purged batch could have been the next one, or when the partitions differ
   */
  static Optional<Map<TopicPartition, Long>> next(
      NavigableMap<Long, Map<TopicPartition, Long>> ends, Map<TopicPartition, Long> starts) {
    for (Map.Entry<Long, Map<TopicPartition, Long>> batch : ends.entrySet()) {
      requireSamePartitions(batch.getKey(), batch.getValue().keySet(), starts.keySet());
      if (isBeyond(batch.getValue(), starts)) {
        requireNothingGoneBefore(batch.getKey(), ends.firstKey(), starts);
        return Optional.of(batch.getValue());
      }
    }
    return Optional.empty();
  }

  private static boolean isBeyond(Map<TopicPartition, Long> ends, Map<TopicPartition, Long> starts) {
    return !ends.equals(starts)
        && starts.entrySet().stream().allMatch(start -> ends.get(start.getKey()) >= start.getValue());
  }

  private static void requireNothingGoneBefore(long batch, long oldest, Map<TopicPartition, Long> starts) {
    if (batch > 0 && batch == oldest) {
      throw new IllegalStateException(
          "option followOffsetLog: the leader's oldest batch is " + batch
              + ", which ends beyond the follower's " + starts
              + ": the batches in between were purged. Start the follower at later offsets, or let the leader keep more"
              + " batches (spark.sql.streaming.minBatchesToRetain)");
    }
  }

  private static void requireSamePartitions(long batch, Set<TopicPartition> leaders, Set<TopicPartition> own) {
    if (!leaders.equals(own)) {
      throw new IllegalStateException(
          "option followOffsetLog: the leader's batch " + batch + " has the partitions " + leaders
              + ", the follower reads " + own);
    }
  }
}
