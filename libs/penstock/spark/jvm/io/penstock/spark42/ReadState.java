package io.penstock.spark42;

import java.util.Optional;
import java.util.OptionalLong;

/** How far a run of a query has read an input. The query's thread changes it, any thread may ask. */
public final class ReadState {
  private volatile boolean begun;
  private volatile OptionalLong tookAllNanos = OptionalLong.empty();
  private volatile boolean leftRows = true;
  private volatile boolean refused;
  private volatile Optional<String> readTo = Optional.empty();

  /** The run asks for a batch, or repeats one. */
  public void begin() {
    begun = true;
  }

  /** A batch is planned. Unless {@link #tookAll} follows, it leaves rows behind. */
  public void plan() {
    leftRows = true;
    refused = false;
  }

  /** A trigger gets no rows, by an order. */
  public void refuse() {
    refused = true;
  }

  /** Whether no batch was planned since a trigger got no rows by an order. */
  boolean wasRefused() {
    return refused;
  }

  /** What a batch planned since {@code nanos} takes: all there was, all up to these cuts. */
  public void planned(long nanos, boolean tookAll, Optional<String> tookAllTo) {
    if (tookAll) {
      tookAll(nanos);
    }
    tookAllTo.ifPresent(this::tookAllTo);
  }

  /** The batch has all rows that were there at this time of {@code System.nanoTime()}; or there were none. */
  void tookAll(long nanos) {
    tookAllNanos = OptionalLong.of(nanos);
    leftRows = false;
  }

  /** The batch has all rows up to these cuts ({@link QuiesceOrder}). */
  void tookAllTo(String cuts) {
    readTo = Optional.of(cuts);
  }

  boolean hasReadTo(String cuts) {
    return readTo.filter(cuts::equals).isPresent();
  }

  /** Before that the run may have a batch to repeat. */
  boolean hasBegun() {
    return begun;
  }

  /** Whether some batch since this time took all that was there. */
  boolean hasTakenAllSince(long nanos) {
    OptionalLong newest = tookAllNanos;
    return newest.isPresent() && newest.getAsLong() - nanos >= 0;
  }

  /** Whether the newest batch left rows behind, or it is not known that it left none. */
  boolean leftRows() {
    return leftRows;
  }
}
