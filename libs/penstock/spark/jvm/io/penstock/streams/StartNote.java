package io.penstock.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** Notes in a checkpoint, before the first batch, what a stream's offsets count in, as Spark's Kafka source does. */
record StartNote(String folder, SparkSession session) {
  void write(String offsets) {
    Path file = new Path(folder, "0");
    CheckpointFileManager files =
        CheckpointFileManager.create(new Path(folder), session.sessionState().newHadoopConf());
    if (files.exists(file)) {
      return;
    }
    files.mkdirs(new Path(folder));
    CheckpointFileManager.CancellableFSDataOutputStream note = files.createAtomic(file, false);
    try {
      note.write(("\0v1\n" + offsets).getBytes(StandardCharsets.UTF_8));
      note.close();
    } catch (FileAlreadyExistsException earlier) {
      note.cancel(); // An owner before this one, which hung, has noted it meanwhile.
    } catch (IOException error) {
      note.cancel();
      throw new UncheckedIOException("the beginning of a stream cannot be noted in " + folder, error);
    }
  }
}
