package io.penstock.kafka.source.horizon;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * A possible batch: all partitions are read up to one event time.
 *
 * @param horizonMillis that event time
 * @param ends the ends of the batch by partition
 * @param load the share of the budget that the batch uses; above 1 the batch is too large
 */
public record BatchCandidate(long horizonMillis, Map<TopicPartition, Long> ends, double load) {}
