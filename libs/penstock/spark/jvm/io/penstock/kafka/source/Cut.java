package io.penstock.kafka.source;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The ends of all partitions at one event time, and the share of the budget ({@code load}) that they use up. */
record Cut(long millis, Map<TopicPartition, Long> ends, double load) {}
