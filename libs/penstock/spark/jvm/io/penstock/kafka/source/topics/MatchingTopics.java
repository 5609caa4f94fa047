package io.penstock.kafka.source.topics;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.spark.sql.kafka010.SubscribePatternStrategy;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's list of the partitions that a source reads, by a pattern of topics: of each matching topic the same range. It
 * asks Kafka for new topics at most once in a time. Where Kafka does not answer that, the topics that are read are read
 * on.
 */
public final class MatchingTopics extends SubscribePatternStrategy {
  private static final Logger LOG = LoggerFactory.getLogger(MatchingTopics.class);

  private final transient KnownTopics known;
  private final transient Map<String, Uuid> ids = new HashMap<>();
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

  /** Kafka's id of a topic that this object has found; empty where Kafka has no ids. */
  public synchronized Optional<Uuid> id(String topic) {
    return Optional.ofNullable(ids.get(topic)).filter(id -> !id.equals(Uuid.ZERO_UUID));
  }

  @Override
  public synchronized scala.collection.immutable.Set<TopicPartition> assignedTopicPartitions(Admin admin) {
    long now = System.nanoTime();
    if (!hasLooked || now - lookedNanos >= everyNanos) {
      try {
        look(admin);
      } catch (KafkaException error) {
        passOver(error, "topics");
      }
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
      } catch (TopicAuthorizationException denied) {
        refuse(topic, "it may not be described");
      } catch (KafkaException error) {
        passOver(error, topic);
      }
    });
  }

  /** New topics can wait, and those that are read need no look. Raises the error where no topic may be known. */
  private void passOver(KafkaException error, String what) {
    if (!hasLooked || error instanceof InterruptException) {
      throw error;
    }
    LOG.warn("Kafka was asked for {} to read, and will be asked again", what, error);
  }

  private void refuse(String topic, String why) {
    if (known.refuse(topic)) {
      LOG.warn("the topic {} is not read: {}", topic, why);
    }
  }

  private void take(String topic, TopicDescription found) {
    Set<AclOperation> granted = found.authorizedOperations();
    boolean readable = granted == null || granted.isEmpty() || granted.contains(AclOperation.READ);
    if (known.take(topic, found.partitions().size(), readable)) {
      ids.put(topic, found.topicId());
      LOG.info("the topic {} is read from now on", topic);
    } else {
      String rights = readable ? "allowed" : "denied";
      refuse(topic, "it has " + found.partitions().size() + " partitions, and reading it is " + rights);
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
