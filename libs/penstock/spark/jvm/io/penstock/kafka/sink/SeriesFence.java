package io.penstock.kafka.sink;

import io.penstock.kafka.sink.errors.KafkaErrors;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.SeriesNames;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionListing;

/** Seals a series that a rescale leaves behind: its producers cannot commit any more. */
public final class SeriesFence {
  private SeriesFence() {}

  /**
   * Fences every producer of the series, aborting what they have open, and returns their transactional ids.
   *
   * @param kafka client settings, bootstrap.servers among them
   */
  public static List<String> fence(Map<String, String> kafka, String prefix) {
    KafkaErrors errors = new KafkaErrors("", prefix, prefix);
    try (Admin admin = Admin.create(SinkOptions.admin(new TreeMap<>(kafka)))) {
      TreeSet<String> ids = new TreeSet<>();
      for (TransactionListing listed : admin.listTransactions().all().get()) {
        if (SeriesNames.belongs(listed.transactionalId(), prefix)) {
          ids.add(listed.transactionalId());
        }
      }
      admin.fenceProducers(ids).all().get();
      return List.copyOf(ids);
    } catch (InterruptedException | ExecutionException error) {
      throw errors.explain("fencing the series", error, false);
    }
  }
}
