package io.penstock.kafka.sink.errors;

import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.apache.commons.lang3.exception.ExceptionUtils;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Translates Kafka's exceptions: the messages say what is wrong and which setting to change. */
public final class KafkaErrors {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaErrors.class);

  private final String topic;
  private final String transactionalId;
  private final Map<Class<?>, String> remedies;

  public KafkaErrors(String topic, String prefix, String transactionalId) {
    this.topic = topic;
    this.transactionalId = transactionalId;
    remedies = Map.of(
        TopicAuthorizationException.class, "kafka denies the topic " + topic + ": the ACL WRITE on it is needed",
        GroupAuthorizationException.class,
        "kafka denies the markers: the ACL READ on the groups with the prefix " + prefix + " is needed",
        TransactionalIdAuthorizationException.class,
        "kafka denies transactions: the ACLs WRITE and DESCRIBE on the transactional ids with the prefix " + prefix
            + " are needed",
        ClusterAuthorizationException.class,
        "kafka denies idempotent writes: the ACL IDEMPOTENT_WRITE on the cluster is needed",
        UnknownTopicOrPartitionException.class,
        "option topic: the topic " + topic + " does not exist; make it first",
        InvalidTxnTimeoutException.class,
        "option kafka.transaction.timeout.ms: is larger than the brokers' transaction.max.timeout.ms; lower the option,"
            + " or raise the brokers' setting",
        RecordTooLargeException.class,
        "a row is too large for the topic " + topic + ": raise kafka.max.request.size and the topic's"
            + " max.message.bytes, or make the row smaller",
        UnsupportedVersionException.class, "the kafka brokers are too old: at least 3.0 is needed");
  }

  /** The exception to throw for {@code error}. {@code timedOut}: the transaction was open longer than its timeout. */
  public RuntimeException explain(String step, Throwable error, boolean timedOut) {
    for (Throwable cause : ExceptionUtils.getThrowableList(error)) {
      if (cause instanceof BrokenSinkException
          || cause instanceof FencedSinkException
          || cause instanceof RetryableSinkException) {
        return (RuntimeException) cause;
      }
    }
    if (has(error, InterruptException.class) || has(error, InterruptedException.class)) {
      return interrupted();
    }
    if (has(error, ProducerFencedException.class) || has(error, InvalidProducerEpochException.class)) {
      return timedOut ? expired(error) : new FencedSinkException(
          "the transactional id " + transactionalId + " has a newer producer: another run of the query writes", error);
    }
    return remedy(error)
        .map(remedy -> (RuntimeException) new BrokenSinkException(remedy + " (" + innermost(error) + ")", error))
        .orElseGet(() -> new RetryableSinkException(
            "kafka: " + step + " failed for the transactional id " + transactionalId + ": " + innermost(error), error));
  }

  // Kafka's client wraps the error of a timeout that is too large in a plain KafkaException, so the message counts too.
  private Optional<String> remedy(Throwable error) {
    if (innermost(error).contains("transaction.max.timeout.ms")) {
      return Optional.of(remedies.get(InvalidTxnTimeoutException.class));
    }
    // Markers are offsets of the topic, which only who may read it commits.
    if (innermost(error).contains("TxnOffsetCommitResponse: Topic authorization failed")) {
      return Optional.of("kafka denies the markers: the ACL READ on the topic " + topic + " is needed");
    }
    if (innermost(error).contains("TxnOffsetCommitResponse: Topic authorization failed")) {
      return Optional.of("kafka denies the markers: the ACL READ on the topic " + topic + " is needed");
    }
    return ExceptionUtils.getThrowableList(error).stream()
        .map(cause -> remedies.get(cause.getClass()))
        .filter(Objects::nonNull)
        .findFirst();
  }

  // The cause is left out: it says "fenced", which the host would take for a newer owner.
  private RetryableSinkException expired(Throwable error) {
    LOG.warn("the transaction of {} timed out", transactionalId, error);
    return new RetryableSinkException(
        "the transaction of " + transactionalId + " was open longer than its timeout, and kafka aborted it: raise"
            + " kafka.transaction.timeout.ms (and the brokers' transaction.max.timeout.ms), or make batches smaller");
  }

  /** An interrupt in the form that Spark takes for the stop of a query, not for its failure. */
  private static RuntimeException interrupted() {
    Thread.currentThread().interrupt();
    return new UncheckedIOException(new ClosedByInterruptException());
  }

  private static boolean has(Throwable error, Class<? extends Throwable> type) {
    return ExceptionUtils.indexOfType(error, type) >= 0;
  }

  private static String innermost(Throwable error) {
    Throwable cause = ExceptionUtils.getRootCause(error);
    return cause.getClass().getSimpleName() + ": " + cause.getMessage();
  }
}
