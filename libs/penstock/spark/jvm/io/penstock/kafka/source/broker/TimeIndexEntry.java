package io.penstock.kafka.source.broker;

/** An answer of the broker's time index: the first record whose timestamp is at or after the requested time. */
public record TimeIndexEntry(long offset, long millis) {}
