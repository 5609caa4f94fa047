package io.penstock.streams;

import org.apache.spark.sql.catalyst.expressions.Murmur3HashFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** The key group of a file: Spark's {@code pmod(hash(path), count)}. Pure. */
final class FileGroups {
  private static final int SEED = 42; // of Spark's function hash

  private FileGroups() {}

  static int of(String path, int count) {
    long hash = Murmur3HashFunction.hash(UTF8String.fromString(path), DataTypes.StringType, SEED);
    return Math.floorMod((int) hash, count);
  }
}
