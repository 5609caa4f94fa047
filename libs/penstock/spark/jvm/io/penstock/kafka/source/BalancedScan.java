package io.penstock.kafka.source;

import java.time.ZoneId;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's scan of Kafka with a stream that chooses the ends of its batches by event time. */
public final class BalancedScan implements Scan {
  private final Scan spark;
  private final SourceOptions options;

  private BalancedScan(Scan spark, SourceOptions options) {
    this.spark = spark;
    this.options = options;
  }

  /** Raises IllegalArgumentException for an invalid option. */
  public static Scan of(Scan spark, CaseInsensitiveStringMap options) {
    ZoneId zone = ZoneId.of(SQLConf.get().sessionLocalTimeZone());
    return new BalancedScan(spark, SourceOptions.of(options, zone));
  }

  @Override
  public StructType readSchema() {
    return spark.readSchema();
  }

  @Override
  public String description() {
    return spark.description();
  }

  @Override
  public Batch toBatch() {
    return spark.toBatch();
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return new BalancedStream((KafkaMicroBatchStream) spark.toMicroBatchStream(checkpointLocation), options);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return spark.supportedCustomMetrics();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return spark.reportDriverMetrics();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return spark.columnarSupportMode();
  }
}
