package io.penstock.kafka.sink;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** What one Kafka transaction holds. */
enum TransactionScope {
  /** A whole micro-batch: all tasks write into one transaction, the driver commits it; needs one JVM. */
  BATCH,
  /** The rows of one Spark partition of a micro-batch: works on a cluster. */
  PARTITION;

  /** The scope asked for by {@code option}, or the one that fits {@code master} when it is null. */
  static TransactionScope of(String option, String master) {
    boolean inProcess = master.equals("local") || master.startsWith("local[");
    if (option == null) {
      return inProcess ? BATCH : PARTITION;
    }
    TransactionScope scope = parse(option);
    if (scope == BATCH && !inProcess) {
      throw new BrokenSinkException(
          "option transactionScope: batch needs the executors inside the driver (master local[...]), not " + master
              + "; leave the option out or set it to partition");
    }
    return scope;
  }

  private static TransactionScope parse(String option) {
    return Arrays.stream(values())
        .filter(scope -> scope.text().equals(option.toLowerCase(Locale.ROOT)))
        .findFirst()
        .orElseThrow(() -> new BrokenSinkException(
            "option transactionScope: must be one of "
                + Arrays.stream(values()).map(TransactionScope::text).collect(Collectors.joining(", "))
                + ", not " + option));
  }

  private String text() {
    return name().toLowerCase(Locale.ROOT);
  }
}
