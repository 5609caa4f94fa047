package io.penstock.kafka.sink;

import io.penstock.kafka.sink.errors.KafkaErrors;
import io.penstock.kafka.sink.options.SinkOptions;
import io.penstock.kafka.sink.series.SeriesNames;
import java.util.List;
import java.util.Map;
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
    try (Admin admin = Admin.create(SinkOptions.admin(kafka))) {
      List<String> ids = admin.listTransactions().all().get().stream()
          .map(TransactionListing::transactionalId)
          .filter(id -> SeriesNames.belongs(id, prefix))
          .sorted()
          .toList();
      admin.fenceProducers(ids).all().get();
      return ids;
    } catch (InterruptedException | ExecutionException error) {
      throw errors.explain("fencing the series", error, false);
    }
  }
}
