package io.penstock.tables;

import java.util.Arrays;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Reads the columns that a query needs, each whole. */
final class VersionScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {
  private final TableVersion version;
  private StructType columns;

  VersionScanBuilder(TableVersion version, StructType columns) {
    this.version = version;
    this.columns = columns;
  }

  @Override
  public void pruneColumns(StructType required) {
    var needed = Arrays.asList(required.fieldNames());
    columns = new StructType(
        Arrays.stream(columns.fields()).filter(column -> needed.contains(column.name())).toArray(StructField[]::new));
  }

  @Override
  public Scan build() {
    return new VersionScan(version, columns);
  }
}
