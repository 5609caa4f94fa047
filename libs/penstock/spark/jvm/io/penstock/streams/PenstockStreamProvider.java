package io.penstock.streams;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;

/** {@code format("penstock-stream")}: the new rows of a Delta table or a folder, divided into key groups. */
public final class PenstockStreamProvider implements StreamSourceProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "penstock-stream";
  }

  @Override
  public Tuple2<String, StructType> sourceSchema(
      SQLContext context, Option<StructType> schema, String provider, Map<String, String> parameters) {
    StreamOptions options = new StreamOptions(parameters);
    StructType columns = originOf(context, "", schema, options).schema();
    return new Tuple2<>(shortName(), SectionedSource.withOwn(columns));
  }

  @Override
  public Source createSource(
      SQLContext context, String metadataPath, Option<StructType> schema, String provider,
      Map<String, String> parameters) {
    StreamOptions options = new StreamOptions(parameters);
    SparkSession session = (SparkSession) context.sparkSession();
    Origin origin = originOf(context, metadataPath, schema, options);
    SectionLog log = new SectionLog(options.log(), session.sessionState().newHadoopConf());
    SectionedSource source = new SectionedSource(session, origin, log, options);
    new StartNote(metadataPath, session).write(source.begin().json());
    return source;
  }

  private static Origin originOf(
      SQLContext context, String metadataPath, Option<StructType> schema, StreamOptions options) {
    if (options.format().equals("delta")) {
      return new DeltaOrigin(context, metadataPath, options);
    }
    return new FolderOrigin((SparkSession) context.sparkSession(), schema.get(), options);
  }
}
