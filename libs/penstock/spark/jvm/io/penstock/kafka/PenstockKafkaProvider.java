package io.penstock.kafka;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
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
    return new KafkaTable((SupportsRead) spark.getTable(new CaseInsensitiveStringMap(properties)));
  }
}
