"""Rates of the last minute from progress records: stories of numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.spark.measure.rates import Batches, Rates, Work, rates, warm_from, with_batch, work

START = 1_000_000.0


def record(at: float, number: int, rows: int, seconds: float) -> dict[str, Any]:
    """A batch that began at `at` seconds after the start."""
    timestamp = datetime.fromtimestamp(START + at, UTC).isoformat().replace("+00:00", "Z")
    return {"timestamp": timestamp, "batchId": number, "numInputRows": rows, "batchDuration": round(seconds * 1000)}


def after(*batches: tuple[float, int, int, float]) -> Batches:
    """What a host has seen, a second after each batch."""
    found: Batches | None = None
    for at, number, rows, seconds in batches:
        found = with_batch(found, record(at, number, rows, seconds), START + at + seconds)
    assert found is not None
    return found


def approx(came: float, processed: float) -> Any:
    return pytest.approx((came, processed), rel=1e-3)


def test_unknown_before_the_first_batch() -> None:
    assert rates(None, START) == Rates(None, None)
    assert with_batch(None, {"batchId": 1}, START) is None


def test_a_steady_task_has_its_rate_by_the_clock_and_a_higher_one_while_it_works() -> None:
    steady = after(*[(5.0 * n, n, 100, 0.5) for n in range(40)])
    assert rates(steady, START + 195.5) == approx(20.0, 200.0)
    assert len(steady.seen) <= 13


def test_rows_of_more_than_a_minute_ago_do_not_count() -> None:
    burst = after((0.0, 0, 60_000, 10.0), *[(5.0 * n, n, 10, 0.1) for n in range(2, 20)])
    assert rates(burst, START + 95.1) == approx(2.0, 100.0)


def test_the_first_batches_of_a_run_are_no_measure() -> None:
    """They took 8 s and 3 s for 10 rows, as state was loaded and code compiled. Their rows have come all the same, and
    one without rows is not among them."""
    cold = (0.0, 4, 10, 8.0), (8.0, 5, 10, 3.0)
    assert rates(after(cold[0]), START + 8.0) == (1.25, None)
    assert rates(after(*cold), START + 11.0) == (pytest.approx(20 / 11), None)
    assert rates(after(cold[0], (8.0, 5, 0, 0.1), (9.0, 6, 1000, 1.0)), START + 10.0) == (101.0, None)
    assert rates(after(*cold, (11.0, 6, 1000, 1.0)), START + 12.0) == approx(85.0, 1000.0)


def test_batches_of_a_host_that_warms_up_are_no_measure() -> None:
    """1. The host's first batch with rows, of any task, begins at 10 s. 2. Another task begins at 20 s; its batches
    count from 40 s on. 3. On a host that is warm they count at once."""
    idle = warm_from(None, record(5.0, 0, 0, 0.1), START + 6.0)
    first = warm_from(idle, record(10.0, 0, 50, 9.0), START + 19.5)
    assert first == START + 40.0
    assert warm_from(first, record(19.0, 1, 50, 1.0), START + 20.5) == first
    steady = [(5.0 * n, n, 100, 1.0) for n in range(4, 9)]
    for seen, cold_host, warm_host in ((steady[:-1], None, 100.0), (steady, 100.0, 100.0)):
        for warm_at, expected in ((first, cold_host), (None, warm_host)):
            found: Batches | None = None
            for at, number, rows, seconds in seen:
                found = with_batch(found, record(at, number, rows, seconds), START + at, warm_from=warm_at)
            assert rates(found, START + 41.0).processed_rows_per_second == expected


def test_batches_that_were_missed_count_as_the_one_that_was_seen() -> None:
    """Ten batches a second of 5 rows, one of which is seen each second."""
    quick = after(*[(1.0 * n, 10 * n, 5, 0.1) for n in range(61)])
    assert rates(quick, START + 60.1) == approx(50.0, 50.0)


def test_a_batch_of_minutes_counts_from_the_one_before_it() -> None:
    slow = after((-150.0, 0, 1500, 150.0), (0.0, 1, 1500, 150.0), (150.0, 2, 3000, 150.0))
    assert rates(slow, START + 300.0) == approx(20.0, 20.0)


def test_a_task_that_triggers_every_ten_minutes_has_the_rate_of_ten_minutes() -> None:
    rare = after((-600.0, 0, 600, 3.0), (0.0, 1, 600, 3.0), (600.0, 2, 600, 3.0))
    assert rates(rare, START + 603.0) == approx(1.0, 200.0)


def test_a_task_that_waits_for_data_comes_to_rest() -> None:
    """1. A second after its only batch, once it is warm. 2. Records without rows, every ten seconds: for half a minute,
    for more than one. 3. Rows come again; the number of a batch that was not run is used again."""
    once = (-200.0, 0, 1, 1.0), (-100.0, 1, 1, 1.0), (0.0, 2, 30, 0.5)
    assert rates(after(*once), START + 1.0) == approx(30 / 100, 60.0)
    idle = [(10.0 * n, 3, 0, 0.005) for n in range(1, 90)]
    assert rates(after(*once, *idle[:3]), START + 30.0).processed_rows_per_second == 60.0
    assert rates(after(*once, *idle), START + 890.0) == Rates(0.0, 0.0)
    again = after(*once, *idle, (899.0, 3, 60, 1.0))
    assert rates(again, START + 900.0) == pytest.approx((1.0, 60.0), rel=0.2)
    assert len(again.seen) <= 8


def test_batches_without_rows_say_nothing_about_the_speed() -> None:
    assert rates(after((0.0, 0, 0, 2.0)), START + 2.0) == Rates(0.0, 0.0)
    warm = (0.0, 0, 1, 1.0), (1.0, 1, 1, 1.0)
    assert rates(after(*warm, (2.0, 2, 0, 2.0), (4.0, 3, 8, 1.0)), START + 5.0) == approx(2.0, 8.0)


def test_the_busy_share_counts_missed_batches_too_and_is_at_most_one() -> None:
    assert work(None, START) == Work(None, None)
    steady = after(*[(5.0 * n, n, 100, 0.5) for n in range(40)])
    assert work(steady, START + 195.5).busy_share == pytest.approx(0.1, rel=0.1)
    quick = after(*[(1.0 * n, 10 * n, 5, 0.05) for n in range(61)])
    assert work(quick, START + 60.05).busy_share == pytest.approx(0.5, rel=0.1)
    overfull = after(*[(1.0 * n, 10 * n, 5, 0.2) for n in range(61)])
    assert work(overfull, START + 60.2).busy_share == 1.0


def test_late_rows_are_those_of_the_last_minute_and_unknown_without_state() -> None:
    found: Batches | None = None
    for n in range(90):
        late = {"stateOperators": [{"numRowsDroppedByWatermark": 6}, {"numRowsDroppedByWatermark": 0}]}
        found = with_batch(found, record(2.0 * n, 2 * n, 10, 0.1) | late, START + 2.0 * n + 0.1)
    assert work(found, START + 178.1).late_rows_per_second == pytest.approx(6.0, rel=0.05)
    assert work(after((0.0, 0, 30, 0.5)), START + 1.0).late_rows_per_second is None


def test_a_clock_that_goes_back_begins_anew() -> None:
    """A batch a second, and the clock goes back by an hour, or by 2.5 s. 1. Before the next batch
    the rates by the clock are unknown. 2. From it on they are those of the new batches. 3. The task stays warm."""
    late = {"stateOperators": [{"numRowsDroppedByWatermark": 6}]}
    for back in (3600.0, 2.5):
        found: Batches | None = None
        for n in range(100):
            found = with_batch(found, record(1.0 * n, n, 100, 0.5) | late, START + n + 0.5)
        assert rates(found, START + 99.6 - back) == Rates(None, None)
        assert work(found, START + 99.6 - back) == Work(None, None)
        for n in range(100, 220):
            at = n - back
            found = with_batch(found, record(at, n, 100, 0.5) | late, START + at + 0.5)
            assert rates(found, START + at + 0.5) == (pytest.approx(150, abs=51), 200.0)
            assert work(found, START + at + 0.5).late_rows_per_second == pytest.approx(9, abs=3.1)
        assert rates(found, START + 219.5 - back) == approx(100.0, 200.0)
        assert work(found, START + 219.5 - back) == (pytest.approx(0.5, rel=0.02), pytest.approx(6.0, rel=0.02))


def test_a_batch_in_which_the_clock_goes_back_says_nothing_of_the_rates() -> None:
    """Spark tells its begin by the old clock. The next batch begins anew."""
    steady = after(*[(1.0 * n, n, 100, 0.5) for n in range(10)])
    spans = with_batch(steady, record(10.0, 10, 100, 0.0), START + 10.5 - 3600)
    assert rates(spans, START + 10.5 - 3600) == Rates(None, None)
    then = with_batch(spans, record(11.0 - 3600, 11, 100, 0.5), START + 11.5 - 3600)
    assert rates(then, START + 12.0 - 3600) == approx(100.0, 200.0)


def test_a_batch_that_is_seen_late_shows_by_its_end_that_the_clock_went_back() -> None:
    steady = after(*[(1.0 * n, n, 100, 0.5) for n in range(10)])
    late = with_batch(steady, record(5.0, 10, 100, 0.5), START + 10.0)
    assert rates(late, START + 10.0) == approx(20.0, 200.0)


def test_batches_missed_before_the_clock_went_back_count_no_more() -> None:
    """Ten batches a second of 5 rows, one of which is seen each second."""
    quick = after(*[(1.0 * n, 10 * n, 5, 0.1) for n in range(61)], (-3600.0, 610, 5, 0.1))
    assert rates(quick, START + 0.1 - 3600) == approx(50.0, 50.0)


def test_a_small_step_back_shows_no_more_rows_than_the_task_works() -> None:
    """The clock is set back by less than a second, right after the first batch."""
    stepped = after((0.0, 0, 100, 0.5), (-0.3, 1, 100, 0.5))
    assert rates(stepped, START + 0.2).input_rows_per_second == pytest.approx(200.0)
    assert work(stepped, START + 0.2).busy_share == 1.0


def test_a_host_that_began_with_a_clock_ahead_is_warm_half_a_minute_after_that_is_mended() -> None:
    """1. The first batch of the host comes with a clock an hour ahead. 2. The clock is right, a batch a second: they
    count from the first that begins half a minute later on. 3. A host that is warm for long is so again as soon."""
    warm_at = warm_from(None, record(3600.0, 0, 50, 1.0), START + 3601.0)
    assert warm_at == START + 3630.0
    known = []
    found: Batches | None = None
    for n in range(40):
        warm_at = warm_from(warm_at, record(1.0 * n, n, 100, 0.5), START + n + 0.5)
        found = with_batch(found, record(1.0 * n, n, 100, 0.5), START + n + 0.5, warm_from=warm_at)
        known.append(rates(found, START + n + 0.5).processed_rows_per_second)
    assert known == [None] * 31 + [200.0] * 9
    assert warm_from(START, record(0.0, 0, 0, 0.0), START - 7200.0) == START - 7170.0
    assert warm_from(None, record(3600.0, 0, 50, 0.0), START) == START + 30.0
