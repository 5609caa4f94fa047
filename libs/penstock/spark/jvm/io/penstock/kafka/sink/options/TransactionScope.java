package io.penstock.kafka.sink.options;

import io.penstock.kafka.sink.errors.BrokenSinkException;
import java.util.Locale;
import org.apache.commons.lang3.EnumUtils;
import org.apache.commons.lang3.StringUtils;

/** What one Kafka transaction holds. */
public enum TransactionScope {
  /** A whole micro-batch: all tasks write into one transaction, which the driver commits. Needs one JVM. */
  BATCH,
  /** The rows of one Spark partition of a micro-batch. Works on a cluster. */
  PARTITION;

  /** The scope that {@code option} names. When {@code option} is null, the scope that fits {@code master}. */
  static TransactionScope of(String option, String master) {
    boolean inProcess = master.equals("local") || master.startsWith("local[");
    if (option == null) {
      return inProcess ? BATCH : PARTITION;
    }
    TransactionScope scope = parse(option);
    if (scope == BATCH && !inProcess) {
      throw new BrokenSinkException(
          "option transactionScope: batch needs the executors inside the driver (master local[...]), not " + master
              + "; remove the option or set it to partition");
    }
    return scope;
  }

  private static TransactionScope parse(String option) {
    TransactionScope scope = EnumUtils.getEnumIgnoreCase(TransactionScope.class, option);
    if (scope == null) {
      throw new BrokenSinkException(
          "option transactionScope: must be one of " + StringUtils.join(values(), ", ") + ", not " + option);
    }
    return scope;
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
