package io.penstock.kafka.source.topics;

import io.penstock.kafka.source.offsets.ClusterNames;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.common.Uuid;
import org.apache.spark.sql.SparkSession;

/**
 * Notes in a checkpoint the ids of the topics that its offsets count in, as {@code penstock.spark.inputs.identity} does
 * at a start: before the offsets, so that a topic that is made again later is not taken for the old one.
 */
public final class TopicNotes {
  private static final String NOTE = "TOPIC-";

  private final String ofSource;
  private final ClusterNames names;
  private final Supplier<Configuration> settings;

  TopicNotes(String ofSource, ClusterNames names, Supplier<Configuration> settings) {
    this.ofSource = ofSource;
    this.names = names;
    this.settings = settings;
  }

  /** {@code ofSource}: the folder of a source in the checkpoint, {@code sources/0}. */
  public static TopicNotes of(String ofSource, ClusterNames names) {
    return new TopicNotes(ofSource, names, () -> SparkSession.active().sparkContext().hadoopConfiguration());
  }

  /** Notes a topic that the checkpoint has no note of. Raises UncheckedIOException. */
  void note(String topic, Uuid id) {
    String prefix = prefix(names.full(topic));
    Path checkpoint = new Path(ofSource).getParent().getParent();
    try {
      FileSystem files = checkpoint.getFileSystem(settings.get());
      if (files.listStatus(checkpoint, path -> path.getName().startsWith(prefix)).length == 0) {
        files.create(new Path(checkpoint, prefix + text(id)), false).close();
      }
    } catch (FileAlreadyExistsException error) {
      return; // An owner before this one, which hung, has noted it meanwhile.
    } catch (IOException error) {
      throw new UncheckedIOException("the topic " + topic + " cannot be noted in " + checkpoint, error);
    }
  }

  private static String prefix(String topic) {
    try {
      byte[] digest = MessageDigest.getInstance("MD5").digest(topic.getBytes(StandardCharsets.UTF_8));
      return NOTE + HexFormat.of().formatHex(digest) + "-";
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }

  private static String text(Uuid id) {
    return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
  }
}
