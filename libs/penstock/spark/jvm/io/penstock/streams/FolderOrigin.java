package io.penstock.streams;

import io.penstock.streams.Section.ListedFile;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.DataFrameReader;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A folder of files, each of which is read once, by its path, the oldest first. What was read before is what the
 * sections say.
 */
final class FolderOrigin implements Origin {
  private static final List<String> NOT_OF_READER =
      List.of("path", "maxfilespertrigger", "maxbytespertrigger", "maxfileage");

  private final SparkSession session;
  private final StructType declared;
  private final StreamOptions options;
  private final Map<String, String> reading;
  private final Set<String> seen = new HashSet<>();
  private long seenTo = SectionLog.BEGIN;

  FolderOrigin(SparkSession session, StructType declared, StreamOptions options) {
    this.session = session;
    this.declared = declared;
    this.options = options;
    this.reading = options.inner();
    reading.keySet().removeAll(NOT_OF_READER);
  }

  /** The columns of partitions, such as {@code day=2026-11-26}, are among the declared ones. */
  @Override
  public StructType schema() {
    return declared.asNullable();
  }

  @Override
  public Section beginning() {
    return Section.ofFolder(List.of(), null);
  }

  @Override
  public Optional<Section> next(long number, Section last, SectionLog log, int mostFiles) {
    seeTo(number, log);
    List<ListedFile> fresh = listed().stream().filter(file -> !seen.contains(file.path()))
        .sorted(Comparator.comparingLong(ListedFile::time).thenComparing(ListedFile::path)).toList();
    if (fresh.isEmpty()) {
      return Optional.empty();
    }
    long span = SectionLog.span(number);
    List<String> earlier = span > 1 ? log.files(number - span, number) : null;
    return Optional.of(Section.ofFolder(limited(fresh, Math.min(mostFiles, options.maxFiles())), earlier));
  }

  @Override
  public long files(Section section, Section last) {
    return section.files().size();
  }

  @Override
  public Dataset<Row> rows(Section section, Section last) {
    return read(section.files());
  }

  @Override
  public Optional<Dataset<Row>> rowsOfFiles(Section section, Section last, IntPredicate keyGroups, int count) {
    List<ListedFile> own =
        section.files().stream().filter(file -> keyGroups.test(FileGroups.of(file.path(), count))).toList();
    return own.isEmpty() ? Optional.empty() : Optional.of(read(own));
  }

  /** Takes in the files of all sections before {@code number}. */
  private void seeTo(long number, SectionLog log) {
    seen.addAll(log.files(seenTo, number));
    seenTo = number - 1;
  }

  private List<ListedFile> limited(List<ListedFile> files, int mostFiles) {
    List<ListedFile> taken = new ArrayList<>();
    long bytes = 0;
    for (ListedFile file : files) {
      bytes += file.bytes();
      if (!taken.isEmpty() && (taken.size() >= mostFiles || bytes > options.maxBytes())) {
        break;
      }
      taken.add(file);
    }
    return taken;
  }

  private List<ListedFile> listed() {
    return files(relation(reader().load(options.path()))).stream().map(FolderOrigin::listed).toList();
  }

  private static ListedFile listed(FileStatus file) {
    return new ListedFile(file.getPath().toString(), file.getModificationTime(), file.getLen());
  }

  /** Raises IllegalStateException when a file has changed since it was listed: tasks would have read different rows. */
  private Dataset<Row> read(List<ListedFile> files) {
    String[] paths = files.stream().map(ListedFile::path).toArray(String[]::new);
    LogicalRelation relation =
        relation(reader().option("basePath", options.path()).option("__globPaths__", "false").load(paths));
    Map<String, ListedFile> found = files(relation).stream().map(FolderOrigin::listed)
        .collect(Collectors.toMap(ListedFile::path, Function.identity()));
    for (ListedFile file : files) {
      ListedFile now = found.get(file.path());
      if (now == null || !now.isAsListed(file)) {
        throw new IllegalStateException("the file " + file.path() + " of a stream has changed since its section was"
            + " made: a file must not change once it is in the folder");
      }
    }
    return Dataset$.MODULE$.ofRows(session,
        LogicalRelation$.MODULE$.apply(relation.relation(), relation.output(), Option.empty(), true, Option.empty()));
  }

  private DataFrameReader reader() {
    return (DataFrameReader) session.read().format(options.format()).options(reading).schema(declared);
  }

  private static LogicalRelation relation(Dataset<Row> rows) {
    return (LogicalRelation) ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed()
        .collectLeaves().head();
  }

  private static List<FileStatus> files(LogicalRelation relation) {
    HadoopFsRelation folder = (HadoopFsRelation) relation.relation();
    return CollectionConverters.asJava(((PartitioningAwareFileIndex) folder.location()).allFiles());
  }
}
