package io.penstock.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

class BatchPlannerTest {
  private static final long T0 = 1_700_000_000_000L;
  private static final long HOUR = 3_600_000;
  private static final long MINUTE = 60_000;
  private static final long TOLERANCE = 10_000;
  private static final long FAR_FUTURE = T0 + 10 * 365 * 24 * HOUR;

  /** Six hours, partitions of other volumes: even, early end, late start, bursts, phase-shifted days, disorder. */
  static MadeUpLogs sixHours(long seed) {
    return sixHours(seed, 2 * MINUTE);
  }

  private static MadeUpLogs sixHours(long seed, long disorder) {
    Random random = new Random(seed);
    MadeUpLogs logs = new MadeUpLogs();
    int partitions = 3 + random.nextInt(6);
    for (int number = 0; number < partitions; number++) {
      logs.with(number, curve(random, number == 0 ? 0 : random.nextInt(6), disorder));
    }
    return logs;
  }

  private static LongStream curve(Random random, int kind, long disorder) {
    int rows = 200 + random.nextInt(4000);
    double phase = random.nextDouble();
    long[] times = LongStream.generate(() -> T0 + place(random, kind, phase)).limit(rows).sorted().toArray();
    return LongStream.of(times).map(time -> time - (long) (random.nextDouble() * disorder));
  }

  private static long place(Random random, int kind, double phase) {
    double share = random.nextDouble();
    return (long) (6 * HOUR * switch (kind) {
      case 1 -> share * 0.3;
      case 2 -> 0.6 + share * 0.4;
      case 3 -> random.nextInt(10) == 0 ? share : Math.min(1, phase * 0.9 + share * 0.05);
      case 4 -> (phase + Math.pow(share, 3)) % 1.0;
      default -> share;
    });
  }

  static Stream<Arguments> seedsAndForms() {
    return LongStream.range(0, 60)
        .boxed()
        .flatMap(seed -> Stream.of(Balance.INDEX, Balance.SAMPLE, Balance.AUTO).map(form -> Arguments.of(seed, form)));
  }

  @ParameterizedTest
  @MethodSource("seedsAndForms")
  void catchesUpWithoutALateRowAndNeverAboveTheLimit(long seed, Balance form) {
    long limit = 100 + new Random(seed).nextInt(1500);
    CatchUp query = new CatchUp(sixHours(seed), form, TOLERANCE, 5 * MINUTE);
    query.run(OptionalLong.of(limit), OptionalLong.empty());
    assertEquals(0, query.rowsLost);
    assertTrue(query.largestBatch <= limit, query.largestBatch + " rows of at most " + limit);
    assertTrue(query.looksPerBatch() < 12, "looks a batch: " + query.looksPerBatch());
  }

  @Test
  void withoutBalanceRowsAreLate() {
    long lost = LongStream.range(0, 10)
        .map(seed -> new CatchUp(sixHours(seed), Balance.OFF, TOLERANCE, 5 * MINUTE)
            .run(OptionalLong.of(500), OptionalLong.empty()).rowsLost)
        .sum();
    assertTrue(lost > 1000, "lost " + lost);
  }

  @Test
  void byTheIndexEveryPartitionIsCutAtTheSameTime() {
    for (long seed = 0; seed < 40; seed++) {
      MadeUpLogs logs = sixHours(seed, 0);
      BatchPlanner planner = new BatchPlanner(Balance.INDEX, TOLERANCE, logs, new RecordSizes(logs));
      Map<TopicPartition, Long> ends = planner.plan(logs.starts(), logs.ends(), OptionalLong.of(800), OptionalLong.empty());
      long horizon = planner.last().horizonMillis();
      var first = logs.firstNotBefore(ends.keySet(), horizon);
      ends.forEach(
          (partition, end) -> assertEquals(
              first.containsKey(partition) ? first.get(partition).offset() : logs.ends().get(partition), end,
              partition + " at " + horizon));
    }
  }

  @ParameterizedTest
  @CsvSource({"INDEX", "SAMPLE"})
  void aBogusRecordNeitherHoldsBackNorPushesItsPartition(Balance form) {
    for (long bogus : new long[] {FAR_FUTURE, 1000}) {
      MadeUpLogs logs = new MadeUpLogs();
      for (int number = 0; number < 4; number++) {
        int place = 300 + 700 * number;
        logs.with(number, LongStream.range(0, 4000).map(at -> at == place ? bogus : T0 + at * 5000));
      }
      CatchUp query = new CatchUp(logs, form, TOLERANCE, 5 * MINUTE);
      query.run(OptionalLong.of(1000), OptionalLong.empty());
      assertEquals(0, query.rowsLost, form + " with " + bogus);
      assertTrue(query.batches < 25, "batches " + query.batches);
    }
  }

  @ParameterizedTest
  @CsvSource({"true, AUTO", "false, AUTO", "false, INDEX"})
  void markersWithTheTimeOfTheClockSpoilNothing(boolean known, Balance form) {
    MadeUpLogs logs = new MadeUpLogs();
    for (int number = 0; number < 4; number++) {
      int pace = 1000 * (number + 1);
      logs.with(number, LongStream.range(0, 20_000 / (number + 1)).map(at -> T0 + at * pace));
    }
    logs.markEvery(450, FAR_FUTURE);
    CatchUp query = new CatchUp(known ? logs.knownToBeTransactional() : logs, form, TOLERANCE, MINUTE);
    query.run(OptionalLong.of(2000), OptionalLong.empty());
    assertEquals(0, query.rowsLost);
    assertTrue(!known || logs.indexLookups == 0, "the index was asked " + logs.indexLookups + " times");
  }

  @ParameterizedTest
  @CsvSource({"INDEX, 100", "SAMPLE, 100", "INDEX, 3", "SAMPLE, 3"})
  void anInstantThatHoldsMoreThanTheLimitIsShared(Balance form, long limit) {
    MadeUpLogs logs = new MadeUpLogs()
        .with(0, LongStream.range(0, 1000).map(at -> T0))
        .with(1, LongStream.range(0, 500).map(at -> T0))
        .with(2, LongStream.range(0, 100).map(at -> T0 + HOUR + at));
    CatchUp query = new CatchUp(logs, form, TOLERANCE, 0);
    query.run(OptionalLong.of(limit), OptionalLong.empty());
    assertTrue(query.largestBatch <= limit);
    assertEquals(0, query.rowsLost);
    assertTrue(query.batches <= 2 * 1600 / limit, "batches " + query.batches);
  }

  @Test
  void theLimitOfBytesCountsWithTheMeanSize() {
    CatchUp query = new CatchUp(sixHours(3), Balance.AUTO, TOLERANCE, 5 * MINUTE);
    query.run(OptionalLong.of(1000), OptionalLong.of((long) (200 * MadeUpLogs.RECORD_BYTES)));
    assertTrue(query.largestBatch <= 200 && query.largestBatch > 150, "rows " + query.largestBatch);
  }

  @Test
  void nothingIsAskedWhereAllFits() {
    MadeUpLogs logs = sixHours(1);
    BatchPlanner planner = new BatchPlanner(Balance.AUTO, TOLERANCE, logs, new RecordSizes(logs));
    assertEquals(
        logs.ends(), planner.plan(logs.starts(), logs.ends(), OptionalLong.of(1_000_000), OptionalLong.empty()));
    assertEquals(0, logs.indexLookups + logs.runLookups);
  }

  @Test
  void aRestartInMidCatchUpChangesNothing() {
    MadeUpLogs logs = sixHours(7);
    Map<TopicPartition, Long> starts = logs.starts();
    long watermark = Long.MIN_VALUE;
    while (!starts.equals(logs.ends())) {
      BatchPlanner fresh = new BatchPlanner(Balance.INDEX, TOLERANCE, logs, new RecordSizes(logs));
      Map<TopicPartition, Long> next = fresh.plan(starts, logs.ends(), OptionalLong.of(700), OptionalLong.empty());
      for (TopicPartition partition : next.keySet()) {
        for (long offset = starts.get(partition); offset < next.get(partition); offset++) {
          assertTrue(logs.timeAt(partition, offset) >= watermark);
        }
      }
      watermark = fresh.last().hasHorizon() ? fresh.last().horizonMillis() - 5 * MINUTE : watermark;
      starts = next;
    }
    assertTrue(watermark > T0);
  }
}
