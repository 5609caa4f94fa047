package io.penstock.sources.protobuf;

/** Makes a value of Spark of one of Protobuf, or the other way round. */
@FunctionalInterface
interface Conversion {
  Object of(Object value);
}
