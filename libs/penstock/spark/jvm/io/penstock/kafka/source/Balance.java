package io.penstock.kafka.source;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** How the ends of a batch are chosen where more is to be read than a batch may hold. */
enum Balance {
  /** By a field where one is named, else by record timestamps in the way that fits the topic. */
  AUTO,
  /** By record timestamps, asked of the broker's time index. */
  INDEX,
  /** By a field of the value, read at sampled offsets. */
  FIELD,
  /** By record timestamps, read at sampled offsets. */
  SAMPLE,
  /** As Spark does: in proportion to what is left of each partition. */
  OFF;

  static Balance of(String text) {
    for (Balance balance : values()) {
      if (balance.word().equals(text.toLowerCase(Locale.ROOT))) {
        return balance;
      }
    }
    String words = Arrays.stream(values()).map(Balance::word).collect(Collectors.joining(", "));
    throw new IllegalArgumentException("option balance: must be one of " + words + ", not '" + text + "'");
  }

  String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
