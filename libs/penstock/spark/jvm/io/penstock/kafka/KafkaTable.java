package io.penstock.kafka;

import io.penstock.kafka.sink.ExactlyOnceWriteBuilder;
import io.penstock.kafka.source.BalancedScan;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Kafka as a table of Spark: the source reads in order of event time, the sink writes exactly once. */
final class KafkaTable implements SupportsRead, SupportsWrite {
  private final SupportsRead spark;

  KafkaTable(SupportsRead spark) {
    this.spark = spark;
  }

  @Override
  public String name() {
    return "penstock-kafka";
  }

  @Override
  public Column[] columns() {
    return spark.columns();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.MICRO_BATCH_READ,
        TableCapability.STREAMING_WRITE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> BalancedScan.of(spark.newScanBuilder(options).build(), options);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new ExactlyOnceWriteBuilder(info);
  }
}
