package io.penstock.kafka.source;

/**
 * What a source has to heed of the other sources of its query.
 *
 * @param others whether there are any, which want to know how far this one is
 * @param latestMillis the event time beyond which it must not read; {@link Cuts#NEVER} for none
 */
record Company(boolean others, long latestMillis) {
  static final Company NONE = new Company(false, Cuts.NEVER);
}
