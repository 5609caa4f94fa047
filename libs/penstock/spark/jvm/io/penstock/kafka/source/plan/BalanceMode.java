package io.penstock.kafka.source.plan;

import java.util.Locale;
import org.apache.commons.lang3.EnumUtils;
import org.apache.commons.lang3.StringUtils;

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
    BalanceMode mode = EnumUtils.getEnumIgnoreCase(BalanceMode.class, text);
    if (mode == null) {
      throw new IllegalArgumentException(
          "option balance: must be one of " + StringUtils.join(values(), ", ") + ", not '" + text + "'");
    }
    return mode;
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
