package io.penstock.sources;

import io.penstock.spark42.DirectCall;
import java.io.Serializable;
import java.util.UUID;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Decodes the values of an input's records. Its columns agree about a record of one batch. */
public abstract class RecordDecoder implements Serializable {
  private final String run = UUID.randomUUID().toString();
  private transient volatile WriterSchemas<?> writers;

  /** Spark's type of the rows. Throws where the schema gives none. */
  public abstract DataType dataType();

  /** For Spark's plan: a row, or null. Throws RegistryException when the registry does not tell a writer's schema. */
  public abstract Object decode(byte[] bytes);

  /** For Spark's plan: why bytes are malformed; null for others. Throws as {@link #decode}. */
  public abstract UTF8String reason(byte[] bytes);

  /** The row of a column of bytes; null where they are malformed. */
  public final Column decoded(Column bytes) {
    return DirectCall.of(this, "decode", dataType(), bytes);
  }

  /** Why bytes of a column are malformed, as text; null for others. */
  public final Column reasons(Column bytes) {
    return DirectCall.of(this, "reason", DataTypes.StringType, bytes);
  }

  /** What a registry does not know may be known to it in the next batch. */
  public final void nextBatch() {
    WriterSchemas.of(run).forgetUnknown();
  }

  /** Those of the run. Looked up once for each copy of a decoder, as all copies of a JVM wait for each other there. */
  @SuppressWarnings("unchecked")
  protected final <S> WriterSchemas<S> writers() {
    WriterSchemas<?> known = writers;
    if (known == null) {
      known = WriterSchemas.of(run);
      writers = known;
    }
    return (WriterSchemas<S>) known;
  }
}
