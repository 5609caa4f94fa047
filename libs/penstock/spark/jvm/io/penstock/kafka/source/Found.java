package io.penstock.kafka.source;

/** What the broker's time index answers: the first record of the log whose timestamp is not below the one asked for. */
record Found(long offset, long millis) {}
