package io.penstock.sources;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataType;

/** Decodes the values of an input's records. Its columns agree about a record of one batch. */
public interface RecordDecoder {
  /** Spark's type of the rows. Throws where the schema gives none. */
  DataType dataType();

  /** The row of a column of bytes; null where they are malformed. */
  Column decoded(Column bytes);

  /** Why bytes of a column are malformed, as text; null for others. */
  Column reasons(Column bytes);

  /** What a registry does not know may be known to it in the next batch. */
  void nextBatch();
}
