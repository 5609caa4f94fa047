package io.penstock.kafka;

import io.penstock.kafka.sink.ExactlyOnceWriteBuilder;
import io.penstock.kafka.source.BalancedScan;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.kafka010.KafkaSourceProvider$;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** {@code format("penstock-kafka")}: a balanced Kafka source and an exactly-once Kafka sink (see README.md). */
public final class PenstockKafkaProvider implements TableProvider, DataSourceRegister {
  private final KafkaSourceProvider spark = new KafkaSourceProvider();

  @Override
  public String shortName() {
    return "penstock-kafka";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return spark.inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    var options = new CaseInsensitiveStringMap(properties);
    return new BalancedTable(options.getBoolean(KafkaSourceProvider$.MODULE$.INCLUDE_HEADERS(), false));
  }

  /** Kafka as a table of Spark: the source reads in order of event time, the sink writes exactly once. */
  private final class BalancedTable extends KafkaSourceProvider.KafkaTable {
    BalancedTable(boolean includeHeaders) {
      spark.super(includeHeaders);
    }

    @Override
    public String name() {
      return shortName();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(
          TableCapability.BATCH_READ,
          TableCapability.MICRO_BATCH_READ,
          TableCapability.BATCH_WRITE,
          TableCapability.STREAMING_WRITE,
          TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> BalancedScan.of(spark, options);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new ExactlyOnceWriteBuilder(info);
    }
  }
}
