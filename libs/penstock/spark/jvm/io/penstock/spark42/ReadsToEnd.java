package io.penstock.spark42;

/** An input that knows whether it has read all that was there. */
public interface ReadsToEnd {
  ReadState readState();
}
