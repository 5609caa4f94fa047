package io.penstock.sources.protobuf;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.DynamicMessage;
import io.penstock.sources.Frame;
import io.penstock.sources.RecentlyUsed;
import io.penstock.spark42.DirectCall;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Converts a row to a message of Protobuf; with an id, after the frame of Confluent and the indexes of the message. */
public final class ProtobufEncoder implements Serializable {
  private static final int MOST = 256;
  private static final RecentlyUsed<Written, Writer> KNOWN = new RecentlyUsed<>(MOST);

  private final StructType type;
  private final String set;
  private final String message;
  private final Integer id;
  private transient volatile Writer writer;

  /**
   * Throws IllegalArgumentException with all columns that do not fit the message.
   *
   * @param set the base64 of a descriptor set
   * @param message the full name of the message
   * @param id that of the schema in a registry; null without one
   */
  public ProtobufEncoder(StructType type, String set, String message, Integer id) {
    this.type = type;
    this.set = set;
    this.message = message;
    this.id = id;
    writer();
  }

  /**
   * The key column as readers have it, by whose hash they look for its row. Throws IllegalArgumentException for a column
   * whose hash is another.
   *
   * @param isHashed whether the key decides the partition; otherwise a column that readers have with another type stays
   */
  public Column keyAsRead(String key, Column column, boolean isHashed) {
    KeyAsRead read = KeyAsRead.of(DescriptorSet.message(set, message), key);
    DataType written = type.apply(key).dataType();
    if (isHashed) {
      read.require(written);
    }
    return read.has(written) ? read.of(column) : column;
  }

  /** The bytes of a column of rows. */
  public Column encoded(Column rows) {
    return DirectCall.of(this, "encode", DataTypes.BinaryType, rows);
  }

  /** For Spark's plan. Throws IllegalArgumentException for a value that the message cannot hold. */
  public byte[] encode(InternalRow row) throws IOException {
    try {
      return writer().write(row);
    } catch (IllegalArgumentException unfit) {
      throw new IllegalArgumentException("output.value_format: " + unfit.getMessage(), unfit);
    }
  }

  @Override
  public String toString() {
    return "protobuf " + message;
  }

  private Writer writer() {
    Writer known = writer;
    if (known == null) {
      known = KNOWN.get(new Written(type, set, message, id), Written::writer);
      writer = known;
    }
    return known;
  }

  /** What decides how rows are written. Each of Spark's tasks has an encoder of its own, so writers are shared. */
  private record Written(StructType type, String set, String message, Integer id) {
    Writer writer() {
      Descriptor of = DescriptorSet.message(set, message);
      return new Writer(MessageWriter.of(type, of), id == null ? new byte[0] : frame(id, of));
    }
  }

  private static byte[] frame(int id, Descriptor message) {
    byte[] indexes = MessageIndexes.written(MessageIndexes.of(message));
    byte[] frame = Arrays.copyOf(Frame.of(id), Frame.BYTES + indexes.length);
    System.arraycopy(indexes, 0, frame, Frame.BYTES, indexes.length);
    return frame;
  }

  private record Writer(MessageWriter rows, byte[] frame) {
    byte[] write(InternalRow row) throws IOException {
      DynamicMessage made = rows.write(row);
      byte[] bytes = Arrays.copyOf(frame, frame.length + made.getSerializedSize());
      CodedOutputStream output = CodedOutputStream.newInstance(bytes, frame.length, bytes.length - frame.length);
      made.writeTo(output);
      output.checkNoSpaceLeft();
      return bytes;
    }
  }
}
