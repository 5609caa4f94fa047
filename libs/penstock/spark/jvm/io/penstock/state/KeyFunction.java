package io.penstock.state;

import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.kafka.common.utils.Utils;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Murmur3Hash;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The function by which the producer of a job's input assigns keys to partitions, which are the key groups.
 *
 * <p>A producer sends a record without a key to any partition. Such a key belongs to key group 0, wherever it is: so the
 * task of the lowest index has it, and it moves with that task.
 *
 * @param name {@code spark}: pmod(hash(columns), count); {@code kafka}: murmur2 of the bytes of one column; {@code
 *     crc32}: librdkafka's {@code consistent_random}; {@code none}: all rows belong to key group 0
 * @param count number of key groups; 1 for {@code none}
 * @param places positions of the key's columns among the columns by which an operator's state is partitioned, in the
 *     order of the key
 */
public record KeyFunction(String name, int count, List<Integer> places) {

  /** Routes rows of one operator to their key group, and to one of the {@code partitions} of a task. */
  Router router(StructType partitionKey, int partitions) {
    if (hashesBytes()) {
      requireKnownBytes(partitionKey);
    }
    List<Expression> all = new ArrayList<>();
    for (int place = 0; place < partitionKey.size(); place++) {
      all.add(new BoundReference(place, partitionKey.fields()[place].dataType(), true));
    }
    List<Expression> key = places.stream().map(all::get).toList();
    List<Expression> hashes =
        List.of(new Murmur3Hash(seq(key)), new HashPartitioning(seq(all), partitions).partitionIdExpression());
    return new Router(UnsafeProjection.create(seq(hashes)));
  }

  private boolean hashesBytes() {
    return name.equals("kafka") || name.equals("crc32");
  }

  private void requireKnownBytes(StructType partitionKey) {
    DataType type = partitionKey.fields()[places.get(0)].dataType();
    if (places.size() != 1 || !(type instanceof StringType || type instanceof BinaryType)) {
      throw new UnmovableStateException(
          "state cannot be moved because key_function " + name + " hashes the bytes of the record's key. These are known"
              + " only for one key column of type STRING or BINARY, not for " + partitionKey.simpleString());
    }
  }

  private static Seq<Expression> seq(List<Expression> expressions) {
    return CollectionConverters.asScala(expressions).toSeq();
  }

  /** Not safe for use by several threads. */
  final class Router {
    private final UnsafeProjection hashes;
    private UnsafeRow hashed;
    private UnsafeRow key;

    private Router(UnsafeProjection hashes) {
      this.hashes = hashes;
    }

    void at(UnsafeRow partitionKey) {
      key = partitionKey;
      hashed = hashes.apply(partitionKey);
    }

    int keyGroup() {
      if (isAnywhere()) {
        return 0;
      }
      return switch (name) {
        case "spark" -> Math.floorMod(hashed.getInt(0), count);
        case "kafka" -> Utils.toPositive(Utils.murmur2(keyBytes())) % count;
        case "crc32" -> (int) (crc32(keyBytes()) % count);
        default -> 0;
      };
    }

    /** Whether the producer may have sent the key to any partition: a null, for librdkafka an empty key too. */
    boolean isAnywhere() {
      return hashesBytes()
          && (key.isNullAt(places.get(0)) || (name.equals("crc32") && keyBytes().length == 0));
    }

    int partition() {
      return hashed.getInt(1);
    }

    // An unsafe row has the same bytes for a text as for a binary.
    private byte[] keyBytes() {
      return key.getBinary(places.get(0));
    }
  }

  private static long crc32(byte[] bytes) {
    CRC32 sum = new CRC32();
    sum.update(bytes);
    return sum.getValue();
  }
}
