package io.penstock.kafka.sink.clients;

import io.penstock.kafka.sink.options.SinkOptions;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.LongConsumer;
import org.apache.kafka.clients.admin.Admin;

/** One admin client for each Kafka cluster, shared in the JVM and closed after 60 s without use. */
public final class SharedAdmins {
  private static final Duration IDLE = Duration.ofSeconds(60);
  private static final Map<TreeMap<String, String>, Shared> ADMINS = new HashMap<>();
  private static final LongConsumer CLOSE_IDLE = SharedAdmins::closeIdle;

  private SharedAdmins() {}

  private static final class Shared {
    final Admin admin;
    int users;
    long usedNanos;

    Shared(Map<String, String> kafka) {
      admin = Admin.create(SinkOptions.admin(kafka));
    }
  }

  public static <T> T with(SinkOptions options, Function<SeriesAdmin, T> question) {
    Shared shared = take(options.kafka());
    try {
      return question.apply(new SeriesAdmin(shared.admin, options));
    } finally {
      giveBack(shared);
    }
  }

  private static Shared take(TreeMap<String, String> kafka) {
    ClientHousekeeper.add(CLOSE_IDLE);
    synchronized (ADMINS) {
      Shared shared = ADMINS.computeIfAbsent(kafka, Shared::new);
      shared.users++;
      return shared;
    }
  }

  private static void giveBack(Shared shared) {
    synchronized (ADMINS) {
      shared.users--;
      shared.usedNanos = System.nanoTime();
    }
  }

  private static void closeIdle(long nowNanos) {
    synchronized (ADMINS) {
      for (Iterator<Shared> all = ADMINS.values().iterator(); all.hasNext(); ) {
        Shared shared = all.next();
        if (shared.users == 0 && nowNanos - shared.usedNanos > IDLE.toNanos()) {
          all.remove();
          shared.admin.close(Duration.ZERO);
        }
      }
    }
  }
}
