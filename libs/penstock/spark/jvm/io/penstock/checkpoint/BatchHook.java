package io.penstock.checkpoint;

/** What a task does when its query publishes entries of its logs. All calls come from the thread of the query. */
public interface BatchHook {
  /** A batch will be planned when this returns. If it throws, the batch is not planned, and the query ends. */
  default void beforePlan(long batch) {}

  /** This run has planned a batch: its entry is in the log of offsets. A batch of an earlier run is not told. */
  void planned(long batch);

  /** A batch has ended and will be committed when this returns. If it throws, the batch will be repeated. */
  void beforeCommit(long batch);

  /** The batch is committed. If this throws, the query ends. */
  void afterCommit(long batch);
}
