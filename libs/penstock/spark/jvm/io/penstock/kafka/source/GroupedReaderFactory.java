package io.penstock.kafka.source;

import io.penstock.kafka.source.plan.PartitionGroup;
import java.io.IOException;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Reads the partitions of a {@link PartitionGroup} one after the other, and any other as {@code readers} do. */
record GroupedReaderFactory(PartitionReaderFactory readers) implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return partition instanceof PartitionGroup group ? new Grouped(group) : readers.createReader(partition);
  }

  private final class Grouped implements PartitionReader<InternalRow> {
    private final Iterator<InputPartition> left;
    private final Map<String, Long> metricsOfRead = new LinkedHashMap<>();
    private PartitionReader<InternalRow> reader;

    Grouped(PartitionGroup group) {
      left = group.parts().iterator();
      reader = readers.createReader(left.next());
    }

    @Override
    public boolean next() throws IOException {
      while (!reader.next()) {
        if (!left.hasNext()) {
          return false;
        }
        addMetrics(metricsOfRead);
        reader.close();
        reader = readers.createReader(left.next());
      }
      return true;
    }

    @Override
    public InternalRow get() {
      return reader.get();
    }

    /** Spark's Kafka metrics count what happened, so those of all partitions add up. */
    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      Map<String, Long> sums = new LinkedHashMap<>(metricsOfRead);
      addMetrics(sums);
      return sums.entrySet().stream().map(sum -> new Sum(sum.getKey(), sum.getValue())).toArray(CustomTaskMetric[]::new);
    }

    @Override
    public void close() throws IOException {
      reader.close();
    }

    private void addMetrics(Map<String, Long> sums) {
      for (CustomTaskMetric metric : reader.currentMetricsValues()) {
        sums.merge(metric.name(), metric.value(), Long::sum);
      }
    }
  }

  private record Sum(String name, long value) implements CustomTaskMetric {}
}
