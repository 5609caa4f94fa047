package io.penstock.tables;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table that a streaming query reads in the version that is in force. Spark plans each batch anew and asks for a scan
 * then, so a batch reads one version, however often it names the table or is computed.
 */
final class RefreshedTable implements Table, SupportsRead {
  private final String name;
  private final TableHistory history;
  private final long refreshNanos;
  private final StructType schema;
  private volatile TableVersion current;
  private long lookedAtNanos;

  /** {@code refreshNanos}: least time between two looks. {@code lookedAtNanos}: when {@code first} was found. */
  RefreshedTable(String name, TableHistory history, long refreshNanos, TableVersion first, long lookedAtNanos) {
    this.name = name;
    this.history = history;
    this.refreshNanos = refreshNanos;
    this.lookedAtNanos = lookedAtNanos;
    schema = first.schema().toNullable();
    current = first;
  }

  /** Looks for a newer version if it is time; whether there is one, which is in force from now on. */
  boolean refresh(long nowNanos) {
    if (nowNanos - lookedAtNanos < refreshNanos) {
      return false;
    }
    lookedAtNanos = nowNanos;
    TableVersion newest = history.newest(current);
    if (newest == current) {
      return false;
    }
    requireColumns(newest.schema());
    current = newest;
    return true;
  }

  TableVersion current() {
    return current;
  }

  private void requireColumns(StructType found) {
    for (StructField column : schema.fields()) {
      if (!found.getFieldIndex(column.name()).isDefined()) {
        throw changed(column, "is gone");
      }
      StructField now = found.apply(column.name());
      if (!now.dataType().asNullable().equals(column.dataType())) {
        throw changed(column, "is " + now.dataType().sql() + " now, and was " + column.dataType().sql());
      }
    }
  }

  private TableChangedException changed(StructField column, String what) {
    return new TableChangedException(
        "tables." + name + ": the column " + column.name() + " " + what + "; the next start reads the columns anew");
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new VersionScanBuilder(current, schema);
  }
}
