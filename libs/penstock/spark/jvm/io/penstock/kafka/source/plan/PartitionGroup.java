package io.penstock.kafka.source.plan;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** Input partitions that one Spark task reads one after the other. */
public record PartitionGroup(List<InputPartition> parts) implements InputPartition {}
