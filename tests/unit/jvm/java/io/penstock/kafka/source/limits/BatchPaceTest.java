package io.penstock.kafka.source.limits;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import java.util.function.IntToDoubleFunction;
import java.util.function.LongUnaryOperator;
import java.util.stream.DoubleStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

class BatchPaceTest {
  private static final long TARGET = 10_000;
  private static final long PLENTY = 1_000_000_000;

  private record Batch(long rows, long millis) {}

  private static final long FIRST_ROWS = BatchPace.firstRows(TARGET);

  private final BatchPace pace = new BatchPace(TARGET, FIRST_ROWS, OptionalLong.empty());
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
    requireSteady(batches.subList(9, 20), 0.7 * TARGET, TARGET);
  }

  @ParameterizedTest(name = "{0} ms and {1} ms a row")
  @CsvSource({"300, 0.005", "300, 2", "300, 75", "2000, 100"})
  void theFirstBatchIsNotMuchLongerEither(double fixedMillis, double rowMillis) {
    requireSteady(run(20, PLENTY, cost(fixedMillis, rowMillis)), 0, 2.5 * TARGET);
  }

  @Test
  void aFastJobHasItsPaceAfterThreeBatches() {
    assertTrue(run(4, PLENTY, cost(300, 0.005)).get(3).rows > 500_000);
  }

  @Test
  void aJobGoesOnAtThePaceThatIsKnownOfIt() {
    run(8, PLENTY, cost(300, 0.05));
    assertEquals(pace.limit(), new BatchPace(TARGET, FIRST_ROWS, OptionalLong.of(pace.limit())).limit());
  }

  @ParameterizedTest(name = "a file of {0} rows in {1} ms")
  @CsvSource({"50000, 9000, 1", "50000, 900, 8", "10, 9000, 4"})
  void filesBeginWithOne(long rows, long millis, long next) {
    BatchPace files = new BatchPace(TARGET, 1, OptionalLong.empty());
    assertEquals(1, files.limit());
    files.finished(1, rows, millis);
    assertEquals(next, files.limit());
  }

  @Test
  void aNoisyMachineMakesNoBatchOfMinutes() {
    LongUnaryOperator exact = cost(500, 0.1);
    List<Batch> batches = run(200, PLENTY, rows -> (long) (exact.applyAsLong(rows) * (0.7 + 0.6 * random.nextDouble())));
    requireSteady(batches.subList(5, 200), 0, 2 * TARGET);
    long small = batches.stream().filter(batch -> batch.millis < 0.4 * TARGET).count();
    assertTrue(small <= 20, small + " small batches, which tell what slow ones are due to");
  }

  /** Milliseconds that a batch takes without rows, by its number: most change from batch to batch. */
  private enum Machine {
    EVEN_9_S(number -> 9_000, 9_000),
    EVEN_10_S(number -> 10_000, 10_000),
    EVEN_60_S(number -> 60_000, 60_000),
    UNEVEN_10_S(number -> 4_000 + uneven(number, 12_000), 10_000),
    LOADED(number -> 25_000 + uneven(number, 75_000), 62_500),
    ANY(number -> uneven(number, 60_000), 30_000),
    NOW_AND_THEN(number -> number / 10 % 2 == 0 ? 300 : 60_000, 30_150),
    PAUSES(number -> uneven(number, 5) < 1 ? 60_000 : 500, 12_400);

    private final IntToDoubleFunction fixedMillis;
    private final double meanMillis;

    Machine(IntToDoubleFunction fixedMillis, double meanMillis) {
      this.fixedMillis = fixedMillis;
      this.meanMillis = meanMillis;
    }

    private static double uneven(int number, double most) {
      return new Random(31L * number).doubles(3, 0, most).toArray()[2];
    }
  }

  private static Stream<Arguments> machines() {
    return Stream.of(Machine.values()).flatMap(machine ->
        DoubleStream.of(0.001, 0.01, 0.1, 2, 10, 1000).mapToObj(rowMillis -> Arguments.of(machine, rowMillis)));
  }

  /** The best constant size has rows for the target less the time without rows, or for half of the latter. */
  @ParameterizedTest(name = "{0} and {1} ms a row")
  @MethodSource("machines")
  void aCatchUpDoesNotCollapseWhenBatchesAreSlowWithoutRows(Machine machine, double rowMillis) {
    double rows = 0;
    double millis = 0;
    for (int number = 0; number < 70; number++) {
      double fixed = machine.fixedMillis.applyAsDouble(number);
      double took = (fixed + rowMillis * pace.limit()) * (0.7 + 0.6 * random.nextDouble());
      rows += number < 20 ? 0 : pace.limit();
      millis += number < 20 ? 0 : took;
      pace.finished(pace.limit(), pace.limit(), (long) took);
    }
    double forRows = Math.max(Math.max(0.8 * TARGET - machine.meanMillis, 0.4 * TARGET), machine.meanMillis / 2);
    double best = forRows / rowMillis / (machine.meanMillis + forRows);
    assertTrue(rows / millis > best / 3, rows / millis + " rows a ms, the best size has " + best);
  }

  /** As a user saw it: 2,000 rows a batch at first, each batch takes 25 to 100 s. */
  @Test
  void aBacklogIsReadInAFewBatchesOfALoadedMachine() {
    long rows = 0;
    int number = 0;
    for (; rows < 56_000; number++) {
      long limit = pace.limit();
      pace.finished(limit, limit, (long) (Machine.LOADED.fixedMillis.applyAsDouble(number) + 0.5 * limit));
      rows += limit;
    }
    assertTrue(number <= 15, number + " batches");
  }

  @ParameterizedTest(name = "{0} ms without a row, {1} ms a row")
  @CsvSource({"12000, 0.01", "30000, 0.01", "60000, 10", "60000, 1000"})
  void rowsTakeAtMostThreeTimesWhatABatchTakesWithoutThem(double fixedMillis, double rowMillis) {
    List<Batch> batches = run(60, PLENTY, cost(fixedMillis, rowMillis));
    requireSteady(batches.subList(1, 60), fixedMillis, 3.5 * fixedMillis);
  }

  @Test
  void aTimeWithoutRowsThatEndsIsForgotten() {
    run(30, PLENTY, cost(60_000, 0.1));
    List<Batch> batches = run(20, PLENTY, cost(300, 0.1));
    requireSteady(batches.subList(8, 20), 0.7 * TARGET, TARGET);
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
    run(20, 10, cost(100, 0.02));
    assertTrue(pace.limit() < before / 4, "what rows cost is no longer known");
    run(1_000, 10, cost(100, 0.02));
    assertEquals(FIRST_ROWS, pace.limit());
  }

  @Test
  void batchesWithoutRowsSayOnlyWhatRowsDoNotCost() {
    for (int number = 0; number < 10; number++) {
      pace.finished(0, 0, 12_000);
    }
    assertEquals(FIRST_ROWS, pace.limit());
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
