package io.penstock.tables;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.StreamSupport;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.DataFrameReader;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The lists of files that a folder has had. A version is a list with the size and time of each file. What is in a file
 * is not kept: a version that is read again has the same files, with what they then contain.
 */
final class FileHistory implements TableHistory {
  private final SparkSession session;
  private final AllowedFiles allowed;
  private final String path;
  private final String format;
  private final String schema;
  private final Map<String, String> options;

  /** {@code schema}: JSON. */
  FileHistory(
      SparkSession session, AllowedFiles allowed, String path, String format, String schema,
      Map<String, String> options) {
    this.session = session;
    this.allowed = allowed;
    this.path = path;
    this.format = format;
    this.schema = schema;
    this.options = options;
  }

  /**
   * A folder that is just written keeps its version: who overwrites one with Spark deletes the files first, and moves
   * the new ones out of {@code _temporary} last.
   */
  @Override
  public TableVersion newest(TableVersion known) {
    if (known != null && isBeingWritten()) {
      return known;
    }
    Dataset<Row> rows = reader().load(path);
    Map<String, List<Long>> files = new TreeMap<>();
    for (FileStatus file : files(rows)) {
      allowed.require(file.getPath().toUri());
      files.put(file.getPath().toString(), List.of(file.getLen(), file.getModificationTime()));
    }
    String note = Notes.text(Map.of("path", path, "files", files));
    return known != null && known.note().equals(note) ? known : new TableVersion(note, rows);
  }

  @Override
  public TableVersion noted(String note) {
    JsonNode files = Notes.parse(note).get("files");
    Iterable<String> names = files::fieldNames;
    String[] paths = StreamSupport.stream(names.spliterator(), false).toArray(String[]::new);
    for (String file : paths) {
      allowed.require(new Path(file).toUri());
    }
    return new TableVersion(note, paths.length == 0 ? empty() : reader().option("basePath", base(paths)).load(paths));
  }

  private boolean isBeingWritten() {
    Path temporary = new Path(path, "_temporary");
    try {
      return temporary.getFileSystem(session.sessionState().newHadoopConf()).exists(temporary);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private DataFrameReader reader() {
    StructType columns = (StructType) DataType.fromJson(schema);
    return (DataFrameReader) session.read().format(format).options(options).schema(columns);
  }

  private Dataset<Row> empty() {
    return session.createDataFrame(List.<Row>of(), (StructType) DataType.fromJson(schema));
  }

  /** The folder from which partitions count. A path of one file is no such folder. */
  private String base(String[] paths) {
    Path file = new Path(paths[0]);
    boolean isFile = file.toUri().getPath().equals(new Path(path).toUri().getPath());
    return isFile ? file.getParent().toString() : path;
  }

  private static List<FileStatus> files(Dataset<Row> rows) {
    LogicalRelation relation = (LogicalRelation) ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution()
        .analyzed().collectLeaves().head();
    HadoopFsRelation found = (HadoopFsRelation) relation.relation();
    return CollectionConverters.asJava(((PartitioningAwareFileIndex) found.location()).allFiles());
  }
}
