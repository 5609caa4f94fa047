package io.penstock.sources;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.LongAccumulator;

/**
 * Decides which records of an input reach the query, and counts them. It must see every record of the input.
 *
 * <p>The numbers in the fields that are not final are those of one Spark task, which has a copy of its own. A task whose
 * records are mostly malformed fails before its batch is written, so nothing of the batch is lost or written.
 */
public final class RecordFilter implements UDF3<Integer, Integer, Long, Boolean> {
  static final int MALFORMED = 1;
  static final int NULL_KEY = 2;
  static final int NO_TIME = 3;
  private static final int WINDOW = 1_000;

  private final String input;
  private final String topic;
  private final String mode;
  private final double limit;
  private final LongAccumulator rows = new LongAccumulator();
  private final LongAccumulator malformed = new LongAccumulator();
  private final LongAccumulator withoutTime = new LongAccumulator();
  private volatile boolean refusesNullKeys;
  private long windowRows;
  private long windowMalformed;

  /**
   * @param mode {@code fail}, {@code null} or {@code dead_letter}
   * @param limit the largest share of malformed records among 1,000
   */
  public RecordFilter(SparkContext context, String input, String topic, String mode, double limit) {
    this.input = input;
    this.topic = topic;
    this.mode = mode;
    this.limit = limit;
    context.register(rows);
    context.register(malformed);
    context.register(withoutTime);
  }

  /**
   * The filter as a function of Spark SQL over the kind of a record (0: whole; 3: whole, and its event time is null),
   * its partition and its offset. Spark neither repeats nor moves a function that is not deterministic.
   */
  public UserDefinedFunction function() {
    return functions.udf(this, DataTypes.BooleanType).asNondeterministic();
  }

  /** From the next start of the query on, records with a null key are malformed. To be called on the driver. */
  public void refuseNullKeys() {
    refusesNullKeys = !mode.equals("null");
  }

  @Override
  public Boolean call(Integer kind, Integer partition, Long offset) {
    rows.add(1L);
    boolean whole = !isMalformed(kind);
    if (kind == NO_TIME) {
      withoutTime.add(1L);
    }
    if (!whole) {
      malformed.add(1L);
      windowMalformed++;
      if (mode.equals("fail")) {
        throw new MalformedRecordException(
            name() + ": the record at offset " + offset + " of partition " + partition + " of the topic " + topic
                + (kind == NULL_KEY
                    ? " has no key, which several tasks could not count, and malformed is fail: write keys, or set"
                        + " malformed to null"
                    : " does not fit value_schema, and malformed is fail"));
      }
    }
    if (++windowRows == WINDOW) {
      requireFew(windowMalformed, windowRows, "in partition " + partition + " before offset " + offset);
      windowRows = 0;
      windowMalformed = 0;
    }
    return whole || mode.equals("null");
  }

  boolean isMalformed(int kind) {
    return kind == MALFORMED || (kind == NULL_KEY && refusesNullKeys);
  }

  boolean writesLetters() {
    return mode.equals("dead_letter");
  }

  /** Throws when the share is above the limit. */
  void requireFew(long malformedRows, long allRows, String where) {
    if (malformedRows > limit * allRows) {
      throw new MalformedRecordException(
          name() + ": " + malformedRows + " of " + allRows + " records of the topic " + topic + " are malformed (" + where
              + "), which is more than malformed_limit " + limit + ": does value_schema fit the topic, and have its records keys?");
    }
  }

  /** How many records the query's Spark tasks have seen since its start. */
  long rows() {
    return rows.sum();
  }

  /** How many of them were malformed. */
  long malformed() {
    return malformed.sum();
  }

  /** How many of them were whole, and had no event time. */
  long withoutTime() {
    return withoutTime.sum();
  }

  private String name() {
    return "inputs." + input;
  }
}
