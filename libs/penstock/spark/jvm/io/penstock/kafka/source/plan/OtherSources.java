package io.penstock.kafka.source.plan;

import io.penstock.kafka.source.horizon.CandidateEvaluator;

/**
 * What the planner of one source must know about the other sources of its query.
 *
 * @param exist whether the query has other sources. They need the horizon of this one
 * @param maxHorizonMillis the event time beyond which this source must not read;
 *     {@link CandidateEvaluator#AFTER_ALL_EVENTS} for no limit
 */
public record OtherSources(boolean exist, long maxHorizonMillis) {
  public static final OtherSources NONE = new OtherSources(false, CandidateEvaluator.AFTER_ALL_EVENTS);
}
