package io.penstock.kafka.source.limits;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;

/** Spark's limits of a batch. {@code least} is the part that says how many rows make a batch worthwhile. */
public record ReadLimits(OptionalLong maxRows, OptionalLong maxBytes, ReadLimit least) {
  public static ReadLimits of(ReadLimit limit) {
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

  /** {@code limit}, or one that Spark does not take for "all available": the source limits its batches by itself. */
  public static ReadLimit ofOwn(ReadLimit limit) {
    return limit instanceof ReadAllAvailable ? ReadLimit.maxRows(Long.MAX_VALUE) : limit;
  }

  /** Adds a limit of bytes to {@code limit}, Spark's own limit of a source. */
  public static ReadLimit with(ReadLimit limit, OptionalLong maxBytes) {
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

  public boolean isUnlimited() {
    return maxRows.isEmpty() && maxBytes.isEmpty();
  }
}
