package io.penstock.kafka.source;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;

/** Spark's limits of a batch, taken apart. {@code least} is the part that says when a batch is worth making. */
record ReadLimits(OptionalLong maxRows, OptionalLong maxBytes, ReadLimit least) {
  static ReadLimits of(ReadLimit limit) {
    ReadLimit[] parts = limit instanceof CompositeReadLimit all ? all.getReadLimits() : new ReadLimit[] {limit};
    OptionalLong maxRows = OptionalLong.empty();
    OptionalLong maxBytes = OptionalLong.empty();
    ReadLimit least = ReadLimit.allAvailable();
    for (ReadLimit part : parts) {
      if (part instanceof ReadAllAvailable) {
        return new ReadLimits(OptionalLong.empty(), OptionalLong.empty(), part);
      } else if (part instanceof ReadMaxRows rows) {
        maxRows = OptionalLong.of(rows.maxRows());
      } else if (part instanceof ReadMaxBytes bytes) {
        maxBytes = OptionalLong.of(bytes.maxBytes());
      } else if (part instanceof ReadMinRows) {
        least = part;
      }
    }
    return new ReadLimits(maxRows, maxBytes, least);
  }

  /** Spark's own default limit of a source with one of bytes added. */
  static ReadLimit with(ReadLimit limit, OptionalLong maxBytes) {
    if (maxBytes.isEmpty()) {
      return limit;
    }
    ReadLimit bytes = ReadLimit.maxBytes(maxBytes.getAsLong());
    if (limit instanceof ReadAllAvailable) {
      return bytes;
    }
    List<ReadLimit> parts = new ArrayList<>(List.of(bytes));
    parts.addAll(limit instanceof CompositeReadLimit all ? List.of(all.getReadLimits()) : List.of(limit));
    return ReadLimit.compositeLimit(parts.toArray(ReadLimit[]::new));
  }

  boolean isUnlimited() {
    return maxRows.isEmpty() && maxBytes.isEmpty();
  }
}
