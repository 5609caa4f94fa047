package io.penstock.streams;

import io.penstock.spark42.QuiesceOrder;
import io.penstock.spark42.ReadState;
import io.penstock.spark42.ReadsToEnd;
import io.penstock.spark42.RunningQuery;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The key groups of one task of a stream, section by section. A batch has one section of the key groups that are
 * furthest behind. By key columns it has all rows of the section, and a column that says which of them are the task's
 * own; so tasks that have read the same sections have seen the same event times. By file it has the task's files.
 */
final class SectionedSource implements Source, SupportsAdmissionControl, ReadsToEnd {
  /** Whether a row is of the key groups of the batch. */
  static final String OWN = "_penstock_own";

  private final SparkSession session;
  private final Origin origin;
  private final SectionLog log;
  private final StreamOptions options;
  private final List<Integer> keyGroups;
  private final Optional<FilePace> pace;
  private final ReadState readState = new ReadState();
  private boolean hasBegun;
  private boolean hasLooked;
  private boolean hasSameKeys;

  SectionedSource(SparkSession session, Origin origin, SectionLog log, StreamOptions options) {
    this.session = session;
    this.origin = origin;
    this.log = log;
    this.options = options;
    this.keyGroups = options.keyGroups();
    this.pace = options.targetBatchMillis().stream().mapToObj(FilePace::new).findFirst();
  }

  static StructType withOwn(StructType columns) {
    return columns.add(OWN, DataTypes.BooleanType, false);
  }

  /** Where a task without a checkpoint is. */
  Positions begin() {
    return Positions.at(options.name(), keyGroups, SectionLog.FIRST);
  }

  @Override
  public StructType schema() {
    return withOwn(origin.schema());
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Optional<RunningQuery> query = RunningQuery.ofThisThread();
    hasBegun(query);
    hasLooked = true;
    Optional<QuiesceOrder> order = query.flatMap(RunningQuery::order);
    Positions from = start == null ? begin() : parse(start);
    OptionalLong next = from.section(options.stopAt());
    if (order.isPresent()) {
      return readsOn(order.get(), query.get(), next) ? from.after(next.getAsLong()) : start;
    }
    long asked = System.nanoTime();
    readState.plan();
    if (next.isEmpty() || !exists(next.getAsLong(), query)) {
      readState.planned(asked, true, Optional.empty());
      return start;
    }
    return from.after(next.getAsLong());
  }

  /**
   * Under an order to take no more rows: whether the next section is needed to come to the watermark of the order.
   * Tasks that have read the same sections have the same watermark, and another task has come there; so it is met
   * exactly, by sections that are there already. Cuts without the stream's name: nothing is read.
   */
  private boolean readsOn(QuiesceOrder order, RunningQuery query, OptionalLong next) {
    String cuts = order.readsTo().orElse(null);
    if (cuts == null) {
      readState.refuse();
      return false;
    }
    boolean mayReadOn = cuts.contains("\"" + options.name() + "\"");
    boolean isBehind = mayReadOn && query.watermarkMillis() < order.levelMillis().orElse(0);
    long asked = System.nanoTime();
    if (isBehind && next.isPresent() && log.find(next.getAsLong()).isPresent()) {
      readState.plan();
      return true;
    }
    readState.planned(asked, isBehind, Optional.of(cuts));
    return false;
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimit.allAvailable(); // A section is limited when it is made.
  }

  @Override
  public Option<org.apache.spark.sql.execution.streaming.Offset> getOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called in its place");
  }

  /**
   * Spark also asks for the last batch that is committed, when a query starts, and does not run it: its files may be
   * gone by then. So before anything new was asked for, what is wrong with a batch fails its run.
   */
  @Override
  public Dataset<Row> getBatch(
      Option<org.apache.spark.sql.execution.streaming.Offset> start,
      org.apache.spark.sql.execution.streaming.Offset end) {
    hasBegun(RunningQuery.ofThisThread());
    Positions from = start.isEmpty() ? begin() : parse(start.get());
    Positions to = parse(end);
    try {
      return rows(from, to);
    } catch (Exception error) { // Spark's are not declared.
      if (hasLooked) {
        throw error;
      }
      return failing(error);
    }
  }

  @Override
  public ReadState readState() {
    return readState;
  }

  @Override
  public void stop() {}

  @Override
  public String toString() {
    return "PenstockStream[" + options.name() + "]";
  }

  private Dataset<Row> rows(Positions from, Positions to) {
    return from.sections(to).boxed()
        .flatMap(section -> rows(section, from.keyGroups(section, to)).stream())
        .reduce(Dataset::union)
        .orElseGet(() -> local(List.of()));
  }

  private void hasBegun(Optional<RunningQuery> query) {
    if (!hasBegun) {
      query.ifPresent(RunningQuery::readOnAtOnce);
    }
    hasBegun = true;
    readState.begin();
  }

  /** Whether there is a section of this number, after it was made from what is new. */
  private boolean exists(long number, Optional<RunningQuery> query) {
    requireSameKeys(number);
    if (log.find(number).isPresent()) {
      return true;
    }
    Section last = before(number);
    Optional<Section> fresh = origin.next(number, last, log, query.map(this::mostFiles).orElse(Integer.MAX_VALUE));
    fresh.map(section -> log.put(number, section)).ifPresent(section -> planned(query, section, last));
    return fresh.isPresent();
  }

  /** A section is limited by the pace of the task that makes it, which learns from the sections that it has made. */
  private int mostFiles(RunningQuery query) {
    return pace.map(own -> (int) Math.min(Integer.MAX_VALUE, own.limit(query, query.sources().indexOf(this))))
        .orElse(Integer.MAX_VALUE);
  }

  private void planned(Optional<RunningQuery> query, Section section, Section last) {
    pace.ifPresent(own -> query.ifPresent(running -> own.planned(running, origin.files(section, last))));
  }

  private Section before(long number) {
    long last = number - 1;
    return last > SectionLog.BEGIN ? log.require(last)
        : log.find(SectionLog.BEGIN).orElseGet(() -> log.put(SectionLog.BEGIN, beginning()));
  }

  private Section beginning() {
    return options.keyColumns().isEmpty() ? origin.beginning() : origin.beginning().withKeys(options.keys());
  }

  /**
   * A row of a section that only some key groups have read would else be in another key group, and be read twice or
   * never. Tasks look before they start; here those that started together with another reading are found.
   */
  private void requireSameKeys(long number) {
    if (hasSameKeys || options.keyColumns().isEmpty()) {
      return;
    }
    Section first = number == SectionLog.FIRST ? before(number) : log.require(SectionLog.BEGIN);
    if (!options.keys().equals(first.keys())) {
      throw new IllegalStateException("the keys of " + options.name() + " are read as " + options.keys()
          + ", and its sections were made for keys that are read as " + first.keys());
    }
    hasSameKeys = true;
  }

  /** Empty when no file of the section is in these key groups. */
  private Optional<Dataset<Row>> rows(long number, Collection<Integer> groups) {
    requireSameKeys(number);
    Section section = log.require(number);
    if (options.keyColumns().isEmpty()) {
      return origin.rowsOfFiles(section, before(number), groups::contains, options.keyGroupCount())
          .map(rows -> columns(rows).withColumn(OWN, functions.lit(true)));
    }
    return Optional.of(columns(origin.rows(section, before(number))).withColumn(OWN, isOf(groups)));
  }

  private Dataset<Row> columns(Dataset<Row> rows) {
    return rows.select(List.of(origin.schema().fieldNames()).stream()
        .map(name -> rows.col("`" + name.replace("`", "``") + "`")).toArray(Column[]::new));
  }

  private Column isOf(Collection<Integer> groups) {
    Column[] key = options.keyColumns().stream().map(functions::col).toArray(Column[]::new);
    return functions.pmod(functions.hash(key), functions.lit(options.keyGroupCount())).isin(groups.toArray());
  }

  private Dataset<Row> failing(Exception error) {
    InternalRow any = new GenericInternalRow(schema().size());
    Column why = functions.lit(String.valueOf(error.getMessage()));
    return local(List.of(any)).where(functions.raise_error(why).isNotNull());
  }

  private Dataset<Row> local(List<InternalRow> rows) {
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(DataTypeUtils.toAttributes(schema())));
    return Dataset$.MODULE$.ofRows(session, new LocalRelation(CollectionConverters.asScala(columns).toSeq(),
        CollectionConverters.asScala(rows).toSeq(), true, Option.empty()));
  }

  private Positions parse(Offset offset) {
    return offset instanceof Positions known ? known : Positions.parse(offset.json(), options.name(), keyGroups);
  }
}
