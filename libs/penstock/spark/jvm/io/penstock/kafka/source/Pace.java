package io.penstock.kafka.source;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;

/**
 * Keeps the sources of one query at one pace in a catch-up: whoever is ahead waits for the one behind, so that a join
 * does not have to hold what its other side has not reached. The one behind never waits.
 */
final class Pace {
  private Pace() {}

  /** The latest event time to which {@code self} may read; empty for as far as it can. */
  static OptionalLong limitOf(BalancedStream self, List<SparkDataStream> sources) {
    List<Plan> plans = new ArrayList<>();
    int own = -1;
    for (SparkDataStream source : sources) {
      if (source == self) {
        own = plans.size();
      }
      if (source instanceof BalancedStream stream) {
        plans.add(stream.lastPlan());
      }
    }
    return own < 0 ? OptionalLong.empty() : limit(own, plans);
  }

  /** By the last plans of all sources. Of those at the same time the first one counts as the one behind. */
  static OptionalLong limit(int own, List<Plan> plans) {
    long horizon = plans.get(own).horizonMillis();
    long limit = Long.MAX_VALUE;
    boolean behind = true;
    for (int other = 0; other < plans.size(); other++) {
      Plan plan = plans.get(other);
      if (other != own && plan.hasHorizon()) {
        limit = Math.min(limit, plan.horizonMillis() + plan.paceMillis());
        behind &= horizon < plan.horizonMillis() || (horizon == plan.horizonMillis() && own < other);
      }
    }
    return behind ? OptionalLong.empty() : OptionalLong.of(limit);
  }
}
