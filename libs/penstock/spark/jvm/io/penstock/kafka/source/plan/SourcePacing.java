package io.penstock.kafka.source.plan;

import io.penstock.kafka.source.horizon.CandidateEvaluator;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;

/**
 * Keeps the sources of a query at similar event times during a catch-up, which bounds the state of joins. A source that
 * is ahead waits for the source behind; the source behind never waits.
 */
public final class SourcePacing {
  private SourcePacing() {}

  /** What {@code self} must know about the other sources of its query. {@code sources} contains {@code self}. */
  public static OtherSources othersOf(HorizonSource self, List<SparkDataStream> sources) {
    return sources.size() < 2
        ? OtherSources.NONE
        : new OtherSources(true, limitOf(self, sources).orElse(CandidateEvaluator.AFTER_ALL_EVENTS));
  }

  private static OptionalLong limitOf(HorizonSource self, List<SparkDataStream> sources) {
    List<BatchHorizon> horizons = new ArrayList<>();
    int own = -1;
    for (SparkDataStream source : sources) {
      if (source == self) {
        own = horizons.size();
      }
      if (source instanceof HorizonSource other) {
        horizons.add(other.lastHorizon());
      }
    }
    return own < 0 ? OptionalLong.empty() : limit(own, horizons);
  }

  /**
   * The latest event time to which the source number {@code own} may read, by the last horizons of all sources. Empty
   * when it is the one behind; of several at the same horizon the first is the one behind.
   */
  static OptionalLong limit(int own, List<BatchHorizon> horizons) {
    long horizon = horizons.get(own).horizonMillis();
    long limit = Long.MAX_VALUE;
    boolean behind = true;
    for (int number = 0; number < horizons.size(); number++) {
      BatchHorizon other = horizons.get(number);
      if (number != own && other.isPresent()) {
        limit = Math.min(limit, other.horizonMillis() + other.advanceMillis());
        behind &= horizon < other.horizonMillis() || (horizon == other.horizonMillis() && own < number);
      }
    }
    return behind ? OptionalLong.empty() : OptionalLong.of(limit);
  }
}
