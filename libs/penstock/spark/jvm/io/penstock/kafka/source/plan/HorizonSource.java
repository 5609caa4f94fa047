package io.penstock.kafka.source.plan;

/** A source of a query that chooses the ends of its batches by event time. */
public interface HorizonSource {
  /** The horizon of the last batch that this source planned. */
  BatchHorizon lastHorizon();
}
