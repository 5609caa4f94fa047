package io.penstock.kafka.source.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.penstock.kafka.source.broker.MadeUpLogs;
import io.penstock.kafka.source.horizon.EventTimeEvaluator;
import io.penstock.kafka.source.limits.ReadLimits;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
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
  private static final OtherSources NO_LIMIT = new OtherSources(true, EventTimeEvaluator.AFTER_ALL_EVENTS);
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
    return LongStream.range(0, 24)
        .boxed()
        .flatMap(seed -> Stream.of(BalanceMode.INDEX, BalanceMode.SAMPLE,
            BalanceMode.AUTO).map(form -> Arguments.of(seed, form)));
  }

  @ParameterizedTest
  @MethodSource("seedsAndForms")
  void catchesUpWithoutALateRowAndNeverAboveTheLimit(long seed, BalanceMode form) {
    long limit = 100 + new Random(seed).nextInt(1500);
    CatchUp query = new CatchUp(sixHours(seed), form, TOLERANCE, 5 * MINUTE);
    query.run(rows(limit));
    assertEquals(0, query.rowsLost);
    assertTrue(query.largestBatch <= limit, query.largestBatch + " rows of at most " + limit);
    assertTrue(query.lookupsPerBatch() < 12, "looks a batch: " + query.lookupsPerBatch());
  }

  @Test
  void withoutBalanceRowsAreLate() {
    long lost = LongStream.range(0, 10)
        .map(seed -> new CatchUp(sixHours(seed), BalanceMode.OFF, TOLERANCE, 5 * MINUTE)
            .run(rows(500)).rowsLost)
        .sum();
    assertTrue(lost > 1000, "lost " + lost);
  }

  @Test
  void byTheIndexEveryPartitionIsCutAtTheSameTime() {
    for (long seed = 0; seed < 40; seed++) {
      MadeUpLogs logs = sixHours(seed, 0);
      BatchPlanner planner = new BatchPlanner(BalanceMode.INDEX, TOLERANCE, logs);
      Map<TopicPartition, Long> ends = planner.plan(logs.starts(), logs.ends(), rows(800), OtherSources.NONE);
      long horizon = planner.lastHorizon().horizonMillis();
      var first = logs.firstAtOrAfter(ends.keySet(), horizon);
      ends.forEach(
          (partition, end) -> assertEquals(
              first.containsKey(partition) ? first.get(partition).offset() : logs.ends().get(partition), end,
              partition + " at " + horizon));
    }
  }

  @ParameterizedTest
  @CsvSource({"INDEX", "SAMPLE"})
  void aBogusRecordNeitherHoldsBackNorPushesItsPartition(BalanceMode form) {
    for (long bogus : new long[] {FAR_FUTURE, 1000}) {
      MadeUpLogs logs = new MadeUpLogs();
      for (int number = 0; number < 4; number++) {
        int place = 300 + 700 * number;
        logs.with(number, LongStream.range(0, 4000).map(at -> at == place ? bogus : T0 + at * 5000));
      }
      CatchUp query = new CatchUp(logs, form, TOLERANCE, 5 * MINUTE);
      query.run(rows(1000));
      assertEquals(0, query.rowsLost, form + " with " + bogus);
      assertTrue(query.batches < 25, "batches " + query.batches);
    }
  }

  @ParameterizedTest
  @CsvSource({"true, AUTO", "false, AUTO", "false, INDEX"})
  void markersWithTheTimeOfTheClockSpoilNothing(boolean known, BalanceMode form) {
    MadeUpLogs logs = new MadeUpLogs();
    for (int number = 0; number < 4; number++) {
      int pace = 1000 * (number + 1);
      logs.with(number, LongStream.range(0, 20_000 / (number + 1)).map(at -> T0 + at * pace));
    }
    logs.markEvery(450, FAR_FUTURE);
    CatchUp query = new CatchUp(known ? logs.knownToBeTransactional() : logs, form, TOLERANCE, MINUTE);
    query.run(rows(2000));
    assertEquals(0, query.rowsLost);
    assertTrue(!known || logs.indexLookups == 0, "the index was asked " + logs.indexLookups + " times");
  }

  @ParameterizedTest
  @CsvSource({"INDEX, 100", "SAMPLE, 100", "INDEX, 3", "SAMPLE, 3"})
  void anInstantThatHoldsMoreThanTheLimitIsShared(BalanceMode form, long limit) {
    MadeUpLogs logs = new MadeUpLogs()
        .with(0, LongStream.range(0, 1000).map(at -> T0))
        .with(1, LongStream.range(0, 500).map(at -> T0))
        .with(2, LongStream.range(0, 100).map(at -> T0 + HOUR + at));
    CatchUp query = new CatchUp(logs, form, TOLERANCE, 0);
    query.run(rows(limit));
    assertTrue(query.largestBatch <= limit);
    assertEquals(0, query.rowsLost);
    assertTrue(query.batches <= 2 * 1600 / limit, "batches " + query.batches);
  }

  @Test
  void aPartitionWithoutEventTimesIsReadInProportion() {
    MadeUpLogs logs = new MadeUpLogs()
        .with(0, LongStream.range(0, 6000).map(at -> T0 + at * 1000))
        .with(1, LongStream.range(0, 600).map(at -> T0 + at * 10_000))
        .with(2, LongStream.range(0, 3000).map(at -> MadeUpLogs.NO_TIME));
    BatchPlanner planner = new BatchPlanner(BalanceMode.SAMPLE, TOLERANCE, logs);
    Map<TopicPartition, Long> ends = planner.plan(logs.starts(), logs.ends(), rows(960), OtherSources.NONE);
    assertEquals(300, ends.get(MadeUpLogs.partition(2)));
    assertEquals(10.0, ends.get(MadeUpLogs.partition(0)) / (double) ends.get(MadeUpLogs.partition(1)), 0.5);
  }

  @Test
  void aPartitionOfWhichOnlyMarkersAreLeftIsReadToItsEnd() {
    MadeUpLogs rows = new MadeUpLogs()
        .with(0, LongStream.range(0, 6000).map(at -> T0 + at * 1000))
        .with(1, LongStream.range(0, 600).map(at -> T0 + at * 10_000))
        .withMarkersOnly(2, 2, FAR_FUTURE);
    BatchPlanner planner = new BatchPlanner(BalanceMode.SAMPLE, TOLERANCE, rows);
    assertEquals(2, planner.plan(rows.starts(), rows.ends(), rows(500),
        OtherSources.NONE).get(MadeUpLogs.partition(2)));
  }

  @Test
  void theLimitOfBytesCountsWithTheMeanSize() {
    CatchUp query = new CatchUp(sixHours(3), BalanceMode.AUTO, TOLERANCE, 5 * MINUTE);
    long bytes = (long) (200 * MadeUpLogs.RECORD_BYTES);
    query.run(new ReadLimits(OptionalLong.of(1000), OptionalLong.of(bytes), ReadLimit.allAvailable()));
    assertTrue(query.largestBatch <= 200 && query.largestBatch > 150, "rows " + query.largestBatch);
  }

  @Test
  void nothingIsAskedWhereAllFits() {
    MadeUpLogs logs = sixHours(1);
    BatchPlanner planner = new BatchPlanner(BalanceMode.AUTO, TOLERANCE, logs);
    assertEquals(
        logs.ends(), planner.plan(logs.starts(), logs.ends(), rows(1_000_000), OtherSources.NONE));
    assertEquals(0, logs.indexLookups + logs.sampleLookups);
  }

  @Test
  void aRestartInMidCatchUpChangesNothing() {
    MadeUpLogs logs = sixHours(7);
    Map<TopicPartition, Long> starts = logs.starts();
    long watermark = Long.MIN_VALUE;
    while (!starts.equals(logs.ends())) {
      BatchPlanner fresh = new BatchPlanner(BalanceMode.INDEX, TOLERANCE, logs);
      Map<TopicPartition, Long> next = fresh.plan(starts, logs.ends(), rows(700), OtherSources.NONE);
      for (TopicPartition partition : next.keySet()) {
        for (long offset = starts.get(partition); offset < next.get(partition); offset++) {
          assertTrue(logs.timeAt(partition, offset) >= watermark);
        }
      }
      watermark = fresh.lastHorizon().isPresent() ? fresh.lastHorizon().horizonMillis() - 5 * MINUTE : watermark;
      starts = next;
    }
    assertTrue(watermark > T0);
  }

  @Test
  void aSourceThatIsAheadWaitsForTheOneBehind() {
    BatchHorizon none = BatchHorizon.NONE;
    assertEquals(OtherSources.NONE, OtherSources.of(0, List.of(new BatchHorizon(500, 10))));
    assertEquals(NO_LIMIT, OtherSources.of(0, List.of(new BatchHorizon(500, 10), none)));
    assertEquals(NO_LIMIT, OtherSources.of(1, List.of(new BatchHorizon(500, 10), none)));
    List<BatchHorizon> apart = List.of(new BatchHorizon(500, 10), new BatchHorizon(400, 20));
    assertEquals(new OtherSources(true, 420), OtherSources.of(0, apart));
    assertEquals(NO_LIMIT, OtherSources.of(1, apart));
    List<BatchHorizon> level = List.of(new BatchHorizon(400, 0), new BatchHorizon(400, 0));
    assertEquals(NO_LIMIT, OtherSources.of(0, level));
    assertEquals(new OtherSources(true, 400), OtherSources.of(1, level));
  }

  @Test
  void twoSourcesKeepPaceAndBothComeToTheirEnds() {
    MadeUpLogs[] logs = {
      new MadeUpLogs().with(0, LongStream.range(0, 9000).map(at -> T0 + at * 1000)),
      new MadeUpLogs().with(0, LongStream.range(0, 900).map(at -> T0 + at * 10_000)),
    };
    List<BatchPlanner> planners =
        Stream.of(logs).map(some -> new BatchPlanner(BalanceMode.INDEX, TOLERANCE, some)).toList();
    List<Map<TopicPartition, Long>> starts = new ArrayList<>(List.of(logs[0].starts(), logs[1].starts()));
    for (int batch = 0; !starts.get(0).equals(logs[0].ends()) || !starts.get(1).equals(logs[1].ends()); batch++) {
      assertTrue(batch < 60, "batches");
      for (int own = 0; own < 2; own++) {
        OtherSources others = OtherSources.of(own, planners.stream().map(BatchPlanner::lastHorizon).toList());
        starts.set(own, planners.get(own).plan(starts.get(own), logs[own].ends(), rows(300), others));
      }
      boolean both = planners.stream().allMatch(planner -> planner.lastHorizon().isPresent());
      long apart = planners.get(0).lastHorizon().horizonMillis() - planners.get(1).lastHorizon().horizonMillis();
      assertTrue(!both || Math.abs(apart) <= 3_000_000, "apart by " + apart);
    }
  }

  private static ReadLimits rows(long limit) {
    return new ReadLimits(OptionalLong.of(limit), OptionalLong.empty(), ReadLimit.allAvailable());
  }
}
