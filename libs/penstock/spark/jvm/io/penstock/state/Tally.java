package io.penstock.state;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;

/** The number of rows and a checksum for each key group. The order of the rows does not matter. */
final class Tally {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long SEED = 42L;
  private static final long REMOVED = 41L;

  private final long[] rows;
  private final long[] sums;

  Tally(int keyGroups) {
    rows = new long[keyGroups];
    sums = new long[keyGroups];
  }

  /** Adds a row. {@code family} is the number of its column family in the store. */
  void add(int keyGroup, int family, UnsafeRow key, UnsafeRow value) {
    add(keyGroup, hash(value, hash(key, SEED + family)));
  }

  /** Adds a row or a change by its hash. */
  void add(int keyGroup, long hash) {
    rows[keyGroup]++;
    sums[keyGroup] += hash;
  }

  /** The hash of a change of a row; without a value the row is removed. */
  static long hash(UnsafeRow key, UnsafeRow value) {
    return value == null ? hash(key, REMOVED) : hash(value, hash(key, SEED));
  }

  synchronized void add(Tally other) {
    for (int keyGroup = 0; keyGroup < rows.length; keyGroup++) {
      rows[keyGroup] += other.rows[keyGroup];
      sums[keyGroup] += other.sums[keyGroup];
    }
  }

  /** JSON: {@code [rows, checksum]} for each key group that has rows. */
  String toJson() {
    ObjectNode groups = JSON.createObjectNode();
    for (int keyGroup = 0; keyGroup < rows.length; keyGroup++) {
      if (rows[keyGroup] > 0) {
        groups.putArray(Integer.toString(keyGroup)).add(rows[keyGroup]).add(Long.toHexString(sums[keyGroup]));
      }
    }
    return groups.toString();
  }

  private static long hash(UnsafeRow row, long seed) {
    return XXH64.hashUnsafeBytes(row.getBaseObject(), row.getBaseOffset(), row.getSizeInBytes(), seed);
  }
}
