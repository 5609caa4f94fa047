package io.penstock.streams;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** {@code format("penstock-paced-stream")}: the new rows of a Delta table or a folder, for one task. */
public final class PacedStreamProvider implements StreamSourceProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "penstock-paced-stream";
  }

  @Override
  public Tuple2<String, StructType> sourceSchema(
      SQLContext context, Option<StructType> schema, String provider, Map<String, String> parameters) {
    StructType columns = inner(context, schema, new StreamOptions(parameters)).sourceInfo().schema();
    return new Tuple2<>(shortName(), columns);
  }

  @Override
  public Source createSource(
      SQLContext context, String metadataPath, Option<StructType> schema, String provider,
      Map<String, String> parameters) {
    StreamOptions options = new StreamOptions(parameters);
    Source inner = inner(context, schema, options).createSource(metadataPath);
    return new PacedSource(inner, options.maxFiles(), options.targetBatchMillis().getAsLong());
  }

  private static DataSource inner(SQLContext context, Option<StructType> schema, StreamOptions options) {
    Seq<String> none = CollectionConverters.asScala(java.util.List.<String>of()).toSeq();
    return new DataSource(
        context.sparkSession(), options.format(), none, schema, none, Option.empty(),
        Map.from(CollectionConverters.asScala(options.inner())), Option.empty(), Option.empty());
  }
}
