package io.penstock.kafka.source.plan;

import io.penstock.kafka.source.horizon.EventTimeEvaluator;
import java.util.List;

/**
 * What the planner of one source must know about the other sources of its query. It keeps them at similar event times
 * during a catch-up, which bounds the state of joins. A source that is ahead waits for the source behind; the source
 * behind never waits.
 *
 * @param exist whether the query has other sources. They need the horizon of this one
 * @param maxHorizonMillis the event time beyond which this source must not read;
 *     {@link EventTimeEvaluator#AFTER_ALL_EVENTS} for no limit
 */
public record OtherSources(boolean exist, long maxHorizonMillis) {
  public static final OtherSources NONE = new OtherSources(false, EventTimeEvaluator.AFTER_ALL_EVENTS);

  /**
   * What the source number {@code own} must know, by the last horizons of all sources of its query. Of several sources
   * at the same horizon the first is the one behind. A source that is not among them (-1) never waits.
   */
  public static OtherSources of(int own, List<BatchHorizon> horizons) {
    boolean exist = horizons.size() > 1;
    if (!exist || own < 0) {
      return new OtherSources(exist, EventTimeEvaluator.AFTER_ALL_EVENTS);
    }
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
    return new OtherSources(exist, behind ? EventTimeEvaluator.AFTER_ALL_EVENTS : limit);
  }
}
