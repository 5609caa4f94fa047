package io.penstock.streams;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.files.TahoeBatchFileIndex;
import org.apache.spark.sql.delta.sources.DeltaDataSource;
import org.apache.spark.sql.delta.sources.DeltaSource;
import org.apache.spark.sql.delta.sources.DeltaSourceOffset;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Delta table by Delta's own source. Where it begins is resolved once, for all tasks: {@code latest} and a moment are
 * another version each time that they are asked for. From then on all offsets are explicit.
 */
final class DeltaOrigin implements Origin {
  private static final List<String> STARTS = List.of("startingversion", "startingtimestamp");

  private final SQLContext context;
  private final String metadataPath;
  private final Map<String, String> options;
  private final int maxFiles;
  private final StructType schema;
  private DeltaSource source;

  DeltaOrigin(SQLContext context, String metadataPath, StreamOptions options) {
    this.context = context;
    this.metadataPath = metadataPath;
    this.options = options.inner();
    this.maxFiles = options.maxFiles();
    this.schema = new DeltaDataSource().sourceSchema(context, Option.empty(), "delta", scalaMap(this.options))._2();
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Section beginning() {
    DeltaSource asking = open(options);
    Option<Object> version = asking.getStartingVersion();
    long first = version.isEmpty() ? asking.snapshotAtSourceInit().version() : (long) version.get();
    return Section.ofDelta(DeltaSourceOffset.apply(
        asking.tableId(), first, DeltaSourceOffset.BASE_INDEX(), version.isEmpty()).json());
  }

  @Override
  public Optional<Section> next(long number, Section last, SectionLog log, int mostFiles) {
    ReadLimit limit = mostFiles < maxFiles ? ReadLimit.maxFiles(mostFiles) : source().getDefaultReadLimit();
    Offset end = source().latestOffset(offset(last), limit);
    return Optional.ofNullable(end).map(Offset::json).filter(text -> !text.equals(last.delta())).map(Section::ofDelta);
  }

  @Override
  public long files(Section section, Section last) {
    return FilePace.filesOf(rows(section, last));
  }

  @Override
  public Dataset<Row> rows(Section section, Section last) {
    return source().getBatch(Option.apply(offset(last)), offset(section));
  }

  @Override
  public Optional<Dataset<Row>> rowsOfFiles(Section section, Section last, IntPredicate keyGroups, int count) {
    LogicalPlan all = ((org.apache.spark.sql.classic.Dataset<Row>) rows(section, last)).logicalPlan();
    List<AddFile> own = new ArrayList<>();
    LogicalPlan part = narrowed(all, file -> keyGroups.test(FileGroups.of(file.path(), count)), own);
    return own.isEmpty() ? Optional.empty()
        : Optional.of(Dataset$.MODULE$.ofRows((SparkSession) context.sparkSession(), part));
  }

  /**
   * The plan with those of its files that are wanted, which are added to {@code taken}. Delta reads files of which a
   * deletion vector takes rows beside the others.
   */
  private static LogicalPlan narrowed(LogicalPlan plan, Predicate<AddFile> wanted, List<AddFile> taken) {
    if (plan.children().nonEmpty()) {
      return plan.mapChildren(child -> narrowed(child, wanted, taken));
    }
    if (plan instanceof LocalRelation none && none.data().isEmpty()) {
      return plan;
    }
    if (!(plan instanceof LogicalRelation relation) || !(relation.relation() instanceof HadoopFsRelation table)
        || !(table.location() instanceof TahoeBatchFileIndex files)) {
      throw new IllegalStateException("the files of a section of a Delta table cannot be told from " + plan);
    }
    List<AddFile> own = CollectionConverters.asJava(files.addFiles()).stream().filter(wanted).toList();
    taken.addAll(own);
    TahoeBatchFileIndex fewer = new TahoeBatchFileIndex(
        files.spark(), files.actionType(), CollectionConverters.asScala(own).toSeq(), files.deltaLog(), files.path(),
        files.snapshot(), files.partitionFiltersGenerated());
    HadoopFsRelation part = table.copy(
        fewer, table.partitionSchema(), table.dataSchema(), table.bucketSpec(), table.fileFormat(), table.options(),
        table.sparkSession());
    return LogicalRelation$.MODULE$.apply(
        part, relation.output(), relation.catalogTable(), relation.isStreaming(), relation.stream());
  }

  private DeltaSource source() {
    if (source == null) {
      Map<String, String> explicit = new TreeMap<>(options);
      explicit.keySet().removeAll(STARTS);
      source = open(explicit);
    }
    return source;
  }

  private DeltaSource open(Map<String, String> asked) {
    return (DeltaSource) new DeltaDataSource().createSource(
        context, metadataPath, Option.empty(), "delta", scalaMap(asked));
  }

  private static SerializedOffset offset(Section section) {
    return new SerializedOffset(section.delta());
  }

  private static scala.collection.immutable.Map<String, String> scalaMap(Map<String, String> map) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(map));
  }
}
