package io.penstock.kafka.source;

import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * The same offsets in another text. Spark compares offsets by their texts, so another text makes Spark run a batch
 * without rows. The text still parses to the same offsets. All offsets of a topic with the name of a cluster are such.
 */
final class RewrittenOffset extends Offset {
  private final String json;

  RewrittenOffset(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }

  /** The text of the same offsets with a space at the end added or removed. */
  static String otherTextOf(String json) {
    return json.endsWith(" ") ? json.stripTrailing() : json + " ";
  }
}
