package io.penstock.kafka.source.limits;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.LongUnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BatchPaceTest {
  private static final long TARGET = 10_000;
  private static final long PLENTY = 1_000_000_000;

  private record Batch(long rows, long millis) {}

  private final BatchPace pace = new BatchPace(TARGET);
  private final Random random = new Random(7);

  /** Batches of a source that has {@code available} rows each time. */
  private List<Batch> run(int batches, long available, LongUnaryOperator millis) {
    List<Batch> run = new ArrayList<>();
    for (int number = 0; number < batches; number++) {
      long rows = Math.min(pace.limit(), available);
      long took = millis.applyAsLong(rows);
      pace.finished(rows, rows, took);
      run.add(new Batch(rows, took));
    }
    return run;
  }

  private static LongUnaryOperator cost(double fixedMillis, double rowMillis) {
    return rows -> (long) (fixedMillis + rowMillis * rows);
  }

  private static void requireSteady(List<Batch> batches, double leastMillis, double mostMillis) {
    batches.forEach(batch ->
        assertTrue(batch.millis >= leastMillis && batch.millis <= mostMillis, batch + " in " + batches));
  }

  @ParameterizedTest(name = "{0} ms and {1} ms a row")
  @CsvSource({"200, 0.005", "300, 0.1", "300, 10", "0, 1000", "3000, 0.02"})
  void batchesSoonTakeAboutTheTarget(double fixedMillis, double rowMillis) {
    List<Batch> batches = run(20, PLENTY, cost(fixedMillis, rowMillis));
    requireSteady(batches.subList(1, 20), 0, 1.2 * TARGET);
    requireSteady(batches.subList(6, 20), 0.7 * TARGET, TARGET);
  }

  @Test
  void aNoisyMachineMakesNoBatchOfMinutes() {
    LongUnaryOperator exact = cost(500, 0.1);
    List<Batch> batches = run(200, PLENTY, rows -> (long) (exact.applyAsLong(rows) * (0.7 + 0.6 * random.nextDouble())));
    requireSteady(batches.subList(5, 200), 0.4 * TARGET, 2 * TARGET);
  }

  @ParameterizedTest(name = "{0} ms without a row")
  @CsvSource({"12000", "30000"})
  void aBatchThatIsLongWithoutRowsKeepsRows(double fixedMillis) {
    List<Batch> batches = run(40, PLENTY, cost(fixedMillis, 0.01));
    batches.forEach(batch -> assertTrue(batch.rows >= 300, batches.toString()));
    requireSteady(batches.subList(15, 40), fixedMillis + 0.3 * TARGET, fixedMillis + 0.6 * TARGET);
  }

  @Test
  void rowsThatCostTenTimesAsMuchCostOneLongBatch() {
    run(15, PLENTY, cost(300, 0.05));
    List<Batch> batches = run(15, PLENTY, cost(300, 0.5));
    assertTrue(batches.get(0).millis > 5 * TARGET);
    requireSteady(batches.subList(1, 15), 0.5 * TARGET, 1.2 * TARGET);
  }

  @Test
  void aPauseIsSoonForgotten() {
    long before = run(12, PLENTY, cost(300, 0.05)).get(11).rows;
    pace.finished(before, before, 60_000);
    List<Batch> batches = run(4, PLENTY, cost(300, 0.05));
    assertTrue(batches.get(0).rows < before / 4);
    assertTrue(batches.get(3).rows > 0.8 * before);
  }

  @Test
  void smallBatchesDoNotShrinkTheLimitBelowTheFirst() {
    run(8, PLENTY, cost(100, 0.02));
    long before = pace.limit();
    run(20, 50, cost(100, 0.02));
    assertTrue(pace.limit() < before / 4, "what rows cost is no longer known");
    run(1_000, 50, cost(100, 0.02));
    assertEquals(BatchPace.FIRST_ROWS, pace.limit());
  }

  @Test
  void batchesWithoutRowsSayOnlyWhatRowsDoNotCost() {
    for (int number = 0; number < 10; number++) {
      pace.finished(0, 0, 12_000);
    }
    assertEquals(BatchPace.FIRST_ROWS, pace.limit());
  }

  @Test
  void aSourceWithFewRowsIsNotHeldBackByAnotherThatIsSlow() {
    run(8, PLENTY, cost(100, 0.05));
    for (int number = 0; number < 3; number++) {
      pace.finished(10, 100_000, 40_000);
    }
    assertTrue(pace.limit() >= 100, Long.toString(pace.limit()));
  }
}
