package io.penstock.tables;

import java.util.Arrays;
import java.util.OptionalLong;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.V1Scan;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;

/** The rows of a version, by a plan of their own, as Spark's internal rows. */
final class VersionScan implements V1Scan, SupportsReportStatistics {
  private static final int LONGEST_NOTE = 200;

  private final TableVersion version;
  private final StructType columns;

  VersionScan(TableVersion version, StructType columns) {
    this.version = version;
    this.columns = columns;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    String note = version.note();
    // A list of files may be long, and each plan that names the table is told as text.
    return "penstock-table " + (note.length() <= LONGEST_NOTE ? note : Integer.toHexString(note.hashCode()));
  }

  /** For the choice of a join: a small table is sent to all Spark tasks. */
  @Override
  public Statistics estimateStatistics() {
    long bytes = rows().queryExecution().optimizedPlan().stats().sizeInBytes().toLong();
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(bytes);
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  @Override
  @SuppressWarnings("unchecked")
  public <T extends BaseRelation & TableScan> T toV1TableScan(SQLContext context) {
    return (T) new Relation(context, columns, rows());
  }

  private Dataset<Row> rows() {
    Column[] selected = Arrays.stream(columns.fieldNames())
        .map(name -> functions.col("`" + name.replace("`", "``") + "`")).toArray(Column[]::new);
    return (Dataset<Row>) version.rows().select(selected);
  }

  private static final class Relation extends BaseRelation implements TableScan {
    private final SQLContext context;
    private final StructType columns;
    private final Dataset<Row> rows;

    Relation(SQLContext context, StructType columns, Dataset<Row> rows) {
      this.context = context;
      this.columns = columns;
      this.rows = rows;
    }

    @Override
    public SQLContext sqlContext() {
      return context;
    }

    @Override
    public StructType schema() {
      return columns;
    }

    /** The rows are Spark's own form already. */
    @Override
    public boolean needConversion() {
      return false;
    }

    @Override
    @SuppressWarnings("unchecked")
    public RDD<Row> buildScan() {
      return (RDD<Row>) (RDD<?>) rows.queryExecution().toRdd();
    }
  }
}
