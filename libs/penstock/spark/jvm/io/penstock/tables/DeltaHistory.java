package io.penstock.tables;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.URI;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.Snapshot;
import scala.Option;

/** The versions of a Delta table, by its log. Whether there is a newer one costs a look into the folder of the log. */
final class DeltaHistory implements TableHistory {
  private final SparkSession session;
  private final AllowedFiles allowed;
  private final String name;
  private final String path;

  DeltaHistory(SparkSession session, AllowedFiles allowed, String name, String path) {
    this.session = session;
    this.allowed = allowed;
    this.name = name;
    this.path = path;
  }

  @Override
  public TableVersion newest(TableVersion known) {
    Snapshot snapshot = snapshot();
    String note = note(snapshot.version(), snapshot.metadata().id());
    return known != null && known.note().equals(note) ? known : read(snapshot.version(), note);
  }

  /** A table that was made again has other versions under the same numbers. */
  @Override
  public TableVersion noted(String note) {
    JsonNode found = Notes.parse(note);
    long version = found.get("version").asLong();
    String id = snapshot().metadata().id();
    if (!note(version, id).equals(note)) {
      throw new TableChangedException("tables." + name + ".path: a batch that has begun reads version " + version
          + " of the Delta table with the id " + found.get("id").asText() + ", but " + path + " has the id " + id
          + ": it was made again");
    }
    return read(version, note);
  }

  private Snapshot snapshot() {
    Snapshot found = DeltaLog.forTable(session, new Path(path)).update(false, Option.empty(), Option.empty());
    if (found.version() < 0) {
      throw new TableChangedException("tables." + name + ".path: there is no Delta table at " + path);
    }
    return found;
  }

  private TableVersion read(long version, String note) {
    Dataset<Row> rows = session.read().format("delta").option("versionAsOf", version).load(path);
    for (String file : rows.inputFiles()) {
      allowed.require(URI.create(file));
    }
    return new TableVersion(note, rows);
  }

  private String note(long version, String id) {
    return Notes.text(Map.of("path", path, "version", version, "id", id));
  }
}
