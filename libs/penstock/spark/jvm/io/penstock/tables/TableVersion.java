package io.penstock.tables;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;

/** One version of a table. {@code note} is JSON, from which the same version is found again. */
record TableVersion(String note, StructType schema, Dataset<Row> rows) {
  TableVersion(String note, Dataset<Row> rows) {
    this(note, rows.schema(), rows);
  }
}
