package io.penstock.checkpoint;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.commons.io.function.IOConsumer;
import org.apache.commons.lang3.exception.ExceptionUtils;
import org.apache.hadoop.fs.Abortable;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** A file of a checkpoint that appears when the stream is closed, by {@code publish}, or never when it is cancelled. */
final class StoreStream<T extends OutputStream> extends CheckpointFileManager.CancellableFSDataOutputStream {
  private final T target;
  private final IOConsumer<T> publish;
  private boolean ended;

  StoreStream(T target, IOConsumer<T> publish) {
    super(target);
    this.target = target;
    this.publish = publish;
  }

  @Override
  public synchronized void close() throws IOException {
    if (ended) {
      return;
    }
    ended = true;
    try {
      flush();
      publish.accept(target);
    } catch (IOException | RuntimeException error) {
      abort(error);
      throw error;
    }
  }

  @Override
  public synchronized void cancel() {
    if (!ended) {
      ended = true;
      abort(null);
    }
  }

  private void abort(Exception cause) {
    try {
      if (target instanceof Abortable open) {
        open.abort();
      }
    } catch (RuntimeException error) {
      if (cause == null) {
        ExceptionUtils.rethrow(error);
      }
      cause.addSuppressed(error);
    }
  }
}
