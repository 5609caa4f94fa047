package io.penstock.kafka.source.topics;

import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.spark.sql.kafka010.SubscribePatternStrategy;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's list of the partitions that a source reads, by a pattern of topics: of each matching topic the same range. It
 * asks Kafka for new topics at most once in a time.
 */
public final class MatchingTopics extends SubscribePatternStrategy {
  private static final Logger LOG = LoggerFactory.getLogger(MatchingTopics.class);

  private final transient KnownTopics known;
  private final Set<String> told = new HashSet<>();
  private final long everyNanos;
  private long lookedNanos;
  private boolean hasLooked;

  /** {@code everyMillis}: how long new topics may stay unseen. */
  public MatchingTopics(String regex, KeyGroups keyGroups, long everyMillis) {
    super(regex);
    this.known = new KnownTopics(regex, keyGroups);
    this.everyNanos = everyMillis * 1_000_000;
  }

  /** Whether the source reads topics of this name. */
  public boolean matches(String topic) {
    return known.matches(topic);
  }

  /** The query has offsets of these partitions, so it goes on with them. */
  public synchronized void keep(Collection<TopicPartition> partitions) {
    known.keep(partitions);
  }

  @Override
  public synchronized scala.collection.immutable.Set<TopicPartition> assignedTopicPartitions(Admin admin) {
    long now = System.nanoTime();
    if (!hasLooked || now - lookedNanos >= everyNanos) {
      look(admin);
      hasLooked = true;
      lookedNanos = now;
    }
    return CollectionConverters.asScala(known.partitions()).toSet();
  }

  private void look(Admin admin) {
    Set<String> names = known.unknown(answer(admin.listTopics().names()));
    if (names.isEmpty()) {
      return;
    }
    Map<String, KafkaFuture<TopicDescription>> asked = admin
        .describeTopics(names, new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues();
    asked.forEach((topic, description) -> {
      try {
        take(topic, answer(description));
      } catch (UnknownTopicOrPartitionException gone) {
        LOG.info("the topic {} was deleted before it was read", topic);
      }
    });
  }

  private void take(String topic, TopicDescription found) {
    Set<AclOperation> rights = found.authorizedOperations();
    boolean readable = rights == null || rights.isEmpty() || rights.contains(AclOperation.READ);
    if (known.take(topic, found.partitions().size(), readable)) {
      LOG.info("the topic {} is read from now on", topic);
    } else if (told.add(topic)) {
      LOG.warn("the topic {} is not read: it has {} partitions, and reading it is {}", topic, found.partitions().size(),
          readable ? "allowed" : "denied");
    }
  }

  /** Spark repeats the question after an error of Kafka, and ends the query after an interrupt. */
  private static <T> T answer(KafkaFuture<T> future) {
    try {
      return future.get();
    } catch (ExecutionException error) {
      throw error.getCause() instanceof KafkaException cause ? cause : new KafkaException(error.getCause());
    } catch (InterruptedException error) {
      throw MatchingTopics.<RuntimeException>unchecked(error);
    }
  }

  /** Spark knows an interrupted query by this exception, and its method declares none. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
