package io.penstock.kafka.source.plan;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** How the ends of a batch are chosen when the backlog exceeds the limits of a batch (option {@code balance}). */
public enum BalanceMode {
  /** FIELD if a field is named. Otherwise INDEX, and SAMPLE for partitions that transactions write. */
  AUTO,
  /** By record timestamps, from the broker's time index. */
  INDEX,
  /** By a field of the value, from samples of records. */
  FIELD,
  /** By record timestamps, from samples of records. */
  SAMPLE,
  /** As Spark does: in proportion to the backlog of each partition. */
  OFF;

  public static BalanceMode of(String text) {
    for (BalanceMode balance : values()) {
      if (balance.word().equals(text.toLowerCase(Locale.ROOT))) {
        return balance;
      }
    }
    String words = Arrays.stream(values()).map(BalanceMode::word).collect(Collectors.joining(", "));
    throw new IllegalArgumentException("option balance: must be one of " + words + ", not '" + text + "'");
  }

  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
