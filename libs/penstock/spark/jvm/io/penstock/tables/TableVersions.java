package io.penstock.tables;

import io.penstock.checkpoint.BatchHook;
import io.penstock.checkpoint.FencedCheckpointFileManager;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import scala.Option;

/**
 * The versions of a task's tables. Before a batch is planned, newer versions are looked for, and what the batch is going
 * to read is noted in {@code <checkpoint>/tables} ({@link NoteName}); it counts until the owner's next note. So a batch
 * that is repeated after a crash reads what it read at first, and a note that an earlier owner writes late changes
 * nothing: an owner notes before its first plan, so the notes of the newest owner are those of the newest plan.
 */
public final class TableVersions implements BatchHook {
  private static final long NANOS_PER_MILLI = 1_000_000;
  private static final String TOKEN = "penstock.fence.token";

  private final List<RefreshedTable> tables = new CopyOnWriteArrayList<>();
  private final SparkSession session;
  private final Path folder;
  private final Configuration settings;
  private final List<java.nio.file.Path> roots;
  private boolean noted;

  /** {@code session}: may publish to the checkpoint. {@code roots}: local folders, links resolved. */
  public TableVersions(SparkSession session, String checkpoint, List<String> roots) {
    this.session = session;
    this.roots = roots.stream().map(java.nio.file.Path::of).toList();
    folder = new Path(checkpoint, "tables");
    settings = session.sessionState().newHadoopConf();
  }

  /** A Delta table. {@code note}: of the batch that is to be repeated; null if there is none. */
  public Dataset<Row> delta(String name, String path, long refreshMillis, String note) {
    return add(name, new DeltaHistory(session, new AllowedFiles(name, roots), name, path), refreshMillis, note);
  }

  /** Files of one format, with the columns of {@code schema}, which is JSON. */
  public Dataset<Row> files(
      String name, String path, String format, String schema, Map<String, String> options, long refreshMillis,
      String note) {
    AllowedFiles allowed = new AllowedFiles(name, roots);
    TableHistory history = new FileHistory(session, allowed, path, format, schema, Map.copyOf(options));
    return add(name, history, refreshMillis, note);
  }

  private Dataset<Row> add(String name, TableHistory history, long refreshMillis, String note) {
    long now = System.nanoTime();
    long refreshNanos = refreshMillis * NANOS_PER_MILLI;
    boolean isNew = note == null;
    TableVersion first = isNew ? history.newest(null) : history.noted(note);
    // What was noted may be old: the next batch looks for a newer version.
    RefreshedTable table = new RefreshedTable(name, history, refreshNanos, first, isNew ? now : now - refreshNanos);
    tables.add(table);
    return org.apache.spark.sql.classic.Dataset.ofRows(
        session, DataSourceV2Relation.create(table, Option.empty(), Option.empty()));
  }

  @Override
  public void beforePlan(long batch) {
    long now = System.nanoTime();
    boolean changed = false;
    for (RefreshedTable table : tables) {
      changed |= table.refresh(now);
    }
    if (changed || !noted) {
      write(batch);
      noted = true;
    }
  }

  @Override
  public void planned(long batch) {}

  @Override
  public void beforeCommit(long batch) {}

  @Override
  public void afterCommit(long batch) {}

  private void write(long batch) {
    Map<String, String> notes = new TreeMap<>();
    tables.forEach(table -> notes.put(table.name(), table.current().note()));
    NoteName own = NoteName.of(batch, settings.get(TOKEN, ""));
    try {
      FencedCheckpointFileManager files = new FencedCheckpointFileManager(folder, settings);
      files.mkdirs(folder);
      CancellableFSDataOutputStream file = files.createAtomic(new Path(folder, own.text()), true);
      try {
        file.write(Notes.text(notes).getBytes(StandardCharsets.UTF_8));
        file.close();
      } catch (IOException | RuntimeException error) {
        file.cancel();
        throw error;
      }
      // The batches before are committed. A newer owner of the checkpoint may have noted later ones.
      Arrays.stream(files.list(folder)).map(each -> each.getPath()).filter(each -> isReplaced(each.getName(), own))
          .forEach(files::delete);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static boolean isReplaced(String name, NoteName own) {
    return NoteName.parse(name).filter(other -> other.isReplacedBy(own)).isPresent();
  }
}
