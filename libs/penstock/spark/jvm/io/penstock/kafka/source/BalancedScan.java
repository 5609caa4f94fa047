package io.penstock.kafka.source;

import io.penstock.kafka.source.topics.MatchingTopics;
import io.penstock.kafka.source.topics.PatternProvider;
import io.penstock.kafka.source.topics.TopicNotes;
import java.time.ZoneId;
import java.util.Optional;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's scan of Kafka with a stream that chooses the ends of its batches by event time. */
public final class BalancedScan extends KafkaSourceProvider.KafkaScan {
  private final SourceOptions options;
  private final Optional<MatchingTopics> topics;

  /** Raises IllegalArgumentException for an invalid option. */
  public static BalancedScan of(KafkaSourceProvider spark, CaseInsensitiveStringMap options) {
    return PatternProvider.of(options)
        .map(provider -> new BalancedScan(provider, options, Optional.of(provider.topics())))
        .orElseGet(() -> new BalancedScan(spark, options, Optional.empty()));
  }

  private BalancedScan(KafkaSourceProvider spark, CaseInsensitiveStringMap options, Optional<MatchingTopics> topics) {
    spark.super(options);
    this.topics = topics;
    this.options = SourceOptions.of(options, ZoneId.of(SQLConf.get().sessionLocalTimeZone()));
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    // Spark notes there where it began, without the name of the cluster.
    String notes = options.names().cluster().map(name -> checkpointLocation + "@" + name).orElse(checkpointLocation);
    TopicNotes ids = TopicNotes.of(checkpointLocation, options.names());
    return new BalancedStream((KafkaMicroBatchStream) super.toMicroBatchStream(notes), options, topics, ids);
  }
}
