package io.penstock.kafka.sink.errors;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class KafkaErrorsTest {
  private final KafkaErrors errors = new KafkaErrors("flights", "jobs/1", "jobs/1#3");

  static Stream<Arguments> broken() {
    return Stream.of(
        arguments(new TopicAuthorizationException(Set.of("flights")), "the ACL WRITE on it is needed"),
        arguments(GroupAuthorizationException.forGroupId("jobs/1"), "READ on the groups with the prefix jobs/1"),
        arguments(new TransactionalIdAuthorizationException("no"), "WRITE and DESCRIBE on the transactional ids"),
        arguments(new ClusterAuthorizationException("no"), "IDEMPOTENT_WRITE on the cluster"),
        arguments(new UnknownTopicOrPartitionException("no"), "the topic flights does not exist; make it first"),
        arguments(new InvalidTxnTimeoutException("no"), "option kafka.transaction.timeout.ms: is larger"),
        arguments(new KafkaException("as configured by transaction.max.timeout.ms"), "is larger than the brokers'"),
        arguments(
            new KafkaException("Unexpected error in TxnOffsetCommitResponse: Topic authorization failed."),
            "the ACL READ on the topic flights is needed"),
        arguments(new RecordTooLargeException("2 MB"), "raise kafka.max.request.size"),
        arguments(new UnsupportedVersionException("no"), "brokers are too old"));
  }

  @ParameterizedTest
  @MethodSource("broken")
  void whatTryingAgainCannotHelpSaysWhatToChange(RuntimeException error, String words) {
    for (Throwable wrapped : new Throwable[] {error, new ExecutionException(error), new KafkaException("x", error)}) {
      RuntimeException explained = errors.explain("the commit", wrapped, false);
      assertInstanceOf(BrokenSinkException.class, explained);
      assertTrue(explained.getMessage().contains(words), explained.getMessage());
    }
  }

  static Stream<RuntimeException> fenced() {
    return Stream.of(new ProducerFencedException("newer"), new InvalidProducerEpochException("old"));
  }

  @ParameterizedTest
  @MethodSource("fenced")
  void aNewerProducerFences(RuntimeException error) {
    RuntimeException explained = errors.explain("the commit", new KafkaException("x", error), false);
    assertInstanceOf(FencedSinkException.class, explained);
    assertTrue(explained.getMessage().startsWith("FENCED: the transactional id jobs/1#3"), explained.getMessage());
  }

  /** Kafka says "fenced" of it too; as a cause that would be taken for a newer owner. */
  @ParameterizedTest
  @MethodSource("fenced")
  void aTransactionThatTimedOutIsNotFenced(RuntimeException error) {
    RuntimeException explained = errors.explain("the commit", error, true);
    assertInstanceOf(RetryableSinkException.class, explained);
    assertTrue(explained.getMessage().contains("raise kafka.transaction.timeout.ms"), explained.getMessage());
    assertNull(explained.getCause());
  }

  @Test
  void anInterruptIsWhatSparkTakesForAStop() {
    RuntimeException explained = errors.explain("the commit", new InterruptedException(), false);
    assertTrue(Thread.interrupted(), "the interrupt is kept");
    assertInstanceOf(UncheckedIOException.class, explained);
    assertInstanceOf(ClosedByInterruptException.class, explained.getCause());
  }

  @Test
  void allElseMayBeTriedAgain() {
    RuntimeException explained = errors.explain("the commit", new TimeoutException("60 s"), false);
    assertInstanceOf(RetryableSinkException.class, explained);
    assertTrue(explained.getMessage().contains("the commit failed"), explained.getMessage());
  }

  @Test
  void anErrorOfTheSinkItselfStaysAsItIs() {
    BrokenSinkException own = new BrokenSinkException("column key: no");
    assertSame(own, errors.explain("a write", new KafkaException("x", own), false));
  }
}
