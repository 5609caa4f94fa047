package io.penstock.spark42;

import java.util.function.LongSupplier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.streaming.runtime.MultipleWatermarkPolicy;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import scala.collection.immutable.Seq;

/**
 * Spark's watermark of a query, held back by a bound. The watermark that Spark would have is kept, so that the query can
 * advance to it when the bound rises. A watermark never goes back.
 */
public final class BoundedWatermark extends WatermarkTracker {
  static final String POLICY = "spark.sql.streaming.multipleWatermarkPolicy";

  private final Policy policy;

  BoundedWatermark(String policy, LogicalPlan plan, LongSupplier bound) {
    this(new Policy(MultipleWatermarkPolicy.apply(policy), bound), plan);
  }

  private BoundedWatermark(Policy policy, LogicalPlan plan) {
    super(policy, plan);
    this.policy = policy;
  }

  /** The watermark of the rows alone, in milliseconds since 1970; 0 when this run of the query has read none yet. */
  public long ofRowsMillis() {
    return policy.ofRows;
  }

  private static final class Policy implements MultipleWatermarkPolicy {
    private final MultipleWatermarkPolicy spark;
    private final LongSupplier bound;
    private volatile long ofRows;

    Policy(MultipleWatermarkPolicy spark, LongSupplier bound) {
      this.spark = spark;
      this.bound = bound;
    }

    @Override
    public long chooseGlobalWatermark(Seq<Object> watermarks) {
      ofRows = Math.max(ofRows, spark.chooseGlobalWatermark(watermarks));
      return Math.min(ofRows, bound.getAsLong());
    }
  }
}
