package io.penstock.streams;

import java.util.Optional;
import java.util.function.IntPredicate;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;

/** Where the rows of a stream come from. */
interface Origin {
  StructType schema();

  /** The section that is before all others. Asked for once in the life of a stream. */
  Section beginning();

  /**
   * What section {@code number} may be: what is new since the one before, {@code last}, within the stream's limits and
   * with at most so many files. Empty when nothing is.
   */
  Optional<Section> next(long number, Section last, SectionLog log, int mostFiles);

  /** How many files a section has. {@code last}: the section before it. */
  long files(Section section, Section last);

  /** The rows of a section, as a stream. {@code last}: the section before it. */
  Dataset<Row> rows(Section section, Section last);

  /** The same, of the files in such key groups only; empty when no file is. */
  Optional<Dataset<Row>> rowsOfFiles(Section section, Section last, IntPredicate keyGroups, int count);
}
