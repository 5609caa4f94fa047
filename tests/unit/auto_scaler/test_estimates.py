"""Equations 2 and 3 of Turbine as tables, P from minutes, X and B from minutes, and P corrected both ways."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.auto_scaler.decide.estimates import (
    TaskMinute,
    estimate_load,
    estimate_rate,
    fewest_alike,
    memory_needed,
    next_larger,
    rate_with_lag,
    rate_without_lag,
    recovery_seconds,
    skew,
    tasks_for_memory,
    tasks_needed,
    with_profile,
    work_per_second,
)
from services.auto_scaler.decide.model import Action, Load, RateEstimate
from services.auto_scaler.decide.policy import Policy
from tests.support.auto_scaler import MIB, NOW, change, load, rate

POLICY = Policy()


def minute(ago: int, task: int = 0, **measured: float | None) -> TaskMinute:
    known = {"input_rows": 100.0, "processed_rows": 100.0, "backlog": 0.0} | measured
    return TaskMinute(NOW - timedelta(minutes=ago), task, **known)


RATES = {
    "busy all the time": ([minute(ago) for ago in range(5)], 100.0, 5, False),
    "the median bears wild minutes": (
        [minute(ago, processed_rows=value) for ago, value in enumerate([1.0, 90.0, 100.0, 110.0, 9000.0])]
        + [minute(9, processed_rows=100.0)],
        100.0,
        5,
        False,
    ),
    "idle minutes do not count beside busy ones": (
        [minute(ago) for ago in range(5)] + [minute(ago, input_rows=1.0, processed_rows=20.0) for ago in range(50)],
        100.0,
        5,
        False,
    ),
    "a backlog makes a minute busy": (
        [minute(ago, input_rows=None, backlog=3000.0) for ago in range(5)],
        100.0,
        5,
        False,
    ),
    "only idle minutes are a lower bound": ([minute(ago, input_rows=1.0) for ago in range(9)], 100.0, 0, True),
    "too few busy minutes are a lower bound": ([minute(ago) for ago in range(4)], 100.0, 4, True),
    "minutes without work say nothing": (
        [minute(ago) for ago in range(5)] + [minute(ago, processed_rows=0.0) for ago in range(50)],
        100.0,
        5,
        False,
    ),
}


@pytest.mark.parametrize(("minutes", "rows", "busy", "is_bound"), RATES.values(), ids=RATES.keys())
def test_what_a_task_can_do(minutes: list[TaskMinute], rows: float, busy: int, is_bound: bool) -> None:
    found = estimate_rate(minutes, POLICY)
    assert found is not None
    assert (found.rows_per_second, found.busy_minutes, found.is_lower_bound) == (rows, busy, is_bound)


PROFILED = {
    "nothing was measured": (None, 80.0, (80.0, 0, None)),
    "too few busy minutes": (rate(50.0, busy=4, is_lower_bound=True), 80.0, (80.0, 4, 50.0)),
    "tasks have shown more": (rate(90.0, busy=4, is_lower_bound=True), 80.0, (90.0, 4, 90.0)),
}


@pytest.mark.parametrize(("measured", "profiled", "expected"), PROFILED.values(), ids=PROFILED.keys())
def test_a_profile_is_the_rate_until_tasks_were_busy_for_long_enough(
    measured: RateEstimate | None, profiled: float, expected: tuple[float, int, float | None]
) -> None:
    found = with_profile(measured, profiled)
    assert found is not None
    assert (found.rows_per_second, found.busy_minutes, found.latest_rows_per_second) == expected
    assert (found.of_profile, found.is_sure) == (True, False)


@pytest.mark.parametrize(
    ("measured", "profiled"), [(rate(50.0), 80.0), (rate(50.0, busy=4, is_lower_bound=True), None)]
)
def test_a_profile_says_nothing_beside_enough_busy_minutes_or_when_there_is_none(
    measured: RateEstimate, profiled: float | None
) -> None:
    assert with_profile(measured, profiled) == measured


LATEST = {
    "slower lately": ([(ago, 100.0 if ago > 14 else 50.0) for ago in range(60)], 50.0, 50.0),
    "faster lately": ([(ago, 50.0 if ago > 14 else 100.0) for ago in range(60)], 100.0, 50.0),
    "hardly busy lately": ([(ago, 100.0 if ago > 3 else 50.0) for ago in [0, 1, 2, 3, *range(15, 60)]], None, 100.0),
}


@pytest.mark.parametrize(("measured", "latest", "careful"), LATEST.values(), ids=LATEST.keys())
def test_what_a_task_could_do_lately(measured: list[tuple[int, float]], latest: float | None, careful: float) -> None:
    found = estimate_rate([minute(ago, processed_rows=value) for ago, value in measured], POLICY)
    assert found is not None
    assert (found.latest_rows_per_second, found.careful) == (latest, careful)


@pytest.mark.parametrize("minutes", [[], [minute(0, processed_rows=None)], [minute(0, processed_rows=0.0)]])
def test_without_work_nothing_is_known(minutes: list[TaskMinute]) -> None:
    assert estimate_rate(minutes, POLICY) is None


LOADS = {
    "of all tasks, the mean of the minutes": (
        [minute(1, 0, input_rows=10.0), minute(1, 1, input_rows=20.0), minute(0, 0), minute(0, 1)],
        load(115.0, 0.0, 0.0),
    ),
    "a growing backlog comes in, too": (
        [minute(1, 0), minute(1, 1), minute(0, 0, backlog=600.0), minute(0, 1)],
        load(210.0, 600.0, 10.0),
    ),
    "what a shrinking backlog gives does not come in": (
        [minute(1, 0, backlog=6000.0), minute(1, 1), minute(0, 0), minute(0, 1)],
        load(100.0, 0.0, -100.0),
    ),
    "one minute shows no growth": ([minute(0, 0, backlog=60.0), minute(0, 1)], load(200.0, 60.0, None)),
    "an unknown backlog": ([minute(0, 0, backlog=None), minute(0, 1)], load(200.0, None, None)),
    "a minute that lacks a task": (
        [minute(0, 0, input_rows=9999.0), minute(1, 0), minute(1, 1)],
        load(200.0, 0.0, None),
    ),
    "only the newest minutes": (
        [minute(ago, task, input_rows=9999.0 if ago > 2 else 50.0) for ago in range(9) for task in range(2)],
        load(100.0, 0.0, 0.0),
    ),
    "no minute of all tasks": ([minute(0, 0)], None),
    "an input that is not measured": ([minute(0, 0), minute(0, 1, input_rows=None)], None),
}


@pytest.mark.parametrize(("minutes", "expected"), LOADS.values(), ids=LOADS.keys())
def test_what_comes_in(minutes: list[TaskMinute], expected: Load | None) -> None:
    found = estimate_load(minutes, 2, POLICY)
    of_one = {"busiest_rows_per_second": None, "busiest_backlog_records": None}
    assert (None if found is None else found.model_copy(update=of_one)) == expected


BUSIEST = {
    "more comes in": ([minute(0, 0, input_rows=30.0), minute(0, 1, input_rows=90.0)], (90.0, 0.0)),
    "more waits": ([minute(0, 0, backlog=60.0), minute(0, 1, input_rows=200.0)], (100.0, 60.0)),
    "its backlog grows": (
        [minute(1, 0), minute(0, 0, backlog=600.0), minute(1, 1), minute(0, 1)],
        (110.0, 600.0),
    ),
}


@pytest.mark.parametrize(("minutes", "expected"), BUSIEST.values(), ids=BUSIEST.keys())
def test_the_busiest_task(minutes: list[TaskMinute], expected: tuple[float, float]) -> None:
    found = estimate_load(minutes, 2, POLICY)
    assert found is not None
    assert (found.busiest_rows_per_second, found.busiest_backlog_records) == expected


def test_a_growth_that_has_just_begun_is_not_averaged() -> None:
    """The backlog has grown by 6,000 rows in the newest of three minutes: 100 are read, and 100 more come in."""
    measured = [minute(2, 0), minute(1, 0), minute(0, 0, backlog=6000.0)]
    found = estimate_load(measured, 1, POLICY)
    assert found is not None
    assert (found.rows_per_second, found.backlog_growth_per_second) == (200.0, 50.0)


def test_the_busiest_task_says_how_many_are_needed() -> None:
    """Four tasks: 200 rows/s come in, 110 of them to one task, of which 900 wait."""
    uneven = load(200.0, 900.0).model_copy(update={"busiest_rows_per_second": 110.0, "busiest_backlog_records": 900.0})
    assert work_per_second(uneven, 900.0, 90.0, 4) == 4 * (110.0 + 10.0)
    assert skew(uneven, 4) == pytest.approx(2.2)
    assert skew(load(200.0), 4) == 1.0


def test_the_best_of_a_task_survives_an_outage() -> None:
    measured = [minute(ago, processed_rows=2.0 if ago < 100 else 100.0) for ago in range(180)]
    found = estimate_rate(measured, POLICY)
    assert found is not None
    assert (found.rows_per_second, found.best) == (2.0, 100.0)


# X, B, t, P k, key groups, n
TASKS = {
    "X / (P k)": (350.0, 0.0, 900.0, 100.0, 1000, 4),
    "exactly": (400.0, 0.0, 900.0, 100.0, 1000, 4),
    "(X + B/t) / (P k)": (350.0, 90_000.0, 900.0, 100.0, 1000, 5),
    "a short time": (350.0, 90_000.0, 90.0, 100.0, 1000, 14),
    "five days of backlog": (90.0, 43_200_000.0, 86_400.0, 100.0, 1000, 6),
    "nothing to do": (0.0, 0.0, 900.0, 100.0, 8, 1),
    "next to nothing": (1e-308, 0.0, 900.0, 100.0, 8, 1),
    "whole key groups: 3 + 3 + 2": (250.0, 0.0, 900.0, 100.0, 8, 3),
    "whole key groups: 5 tasks would have 2 each": (450.0, 0.0, 900.0, 100.0, 8, 8),
    "whole key groups: 5 tasks of 10": (450.0, 0.0, 900.0, 100.0, 10, 5),
    "more than there are key groups": (950.0, 0.0, 900.0, 100.0, 8, 10),
}


@pytest.mark.parametrize(("x", "b", "t", "p", "key_groups", "tasks"), TASKS.values(), ids=TASKS.keys())
def test_tasks_needed(x: float, b: float, t: float, p: float, key_groups: int, tasks: int) -> None:
    assert tasks_needed(work_per_second(load(x), b, t, 4), p, key_groups) == tasks


def carried(tasks: int, p: float, key_groups: int) -> float:
    """Rows per second that so many tasks keep up with, each key group getting as many as another."""
    return p * key_groups / math.ceil(key_groups / tasks)


@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6), st.integers(1, 500))
def test_the_tasks_needed_carry_the_work_and_one_task_fewer_does_not(work: float, p: float, key_groups: int) -> None:
    tasks = tasks_needed(work, p, key_groups)
    if tasks > key_groups:
        assert carried(key_groups, p, key_groups) < work
        return
    assert carried(tasks, p, key_groups) >= work * (1 - 1e-9)
    assert tasks == 1 or carried(tasks - 1, p, key_groups) < work * (1 + 1e-9)


@pytest.mark.parametrize(
    ("tasks", "key_groups", "alike", "larger"),
    [
        (1, 8, 1, 2),
        (3, 8, 3, 4),
        (4, 8, 4, 8),
        (5, 8, 4, 8),
        (7, 8, 4, 8),
        (8, 8, 8, None),
        (6, 9, 5, 9),
        (1, 1, 1, None),
    ],
)
def test_numbers_of_tasks_that_carry_alike(tasks: int, key_groups: int, alike: int, larger: int | None) -> None:
    assert (fewest_alike(tasks, key_groups), next_larger(tasks, key_groups)) == (alike, larger)


@pytest.mark.parametrize(("slo", "seconds"), [(10.0, 100.0), (90.0, 900.0), (3600.0, 900.0)])
def test_a_strict_slo_leaves_less_time(slo: float, seconds: float) -> None:
    assert recovery_seconds(slo, POLICY) == seconds


@pytest.mark.parametrize(("x", "p"), [(300.0, 100.0), (450.0, 150.0)])
def test_tasks_without_lag_can_do_what_they_do(x: float, p: float) -> None:
    """V-C 1: n' = ceiling(X/P) > n without lag, so P is the average throughput of a task."""
    assert rate_without_lag(rate(100.0), load(x), 3) == p


SHRUNK = change(Action.DECREASE_TASKS, 4, 3)
LAG_RATES = {
    "as estimated": (None, None, 100.0),
    "between X/n and P after a decrease": (None, SHRUNK, 90.0),
    "somewhat slower now": (70.0, None, 70.0),
    "half as fast now": (40.0, None, 40.0),
    "an outage says nothing": (14.0, None, 100.0),
    "faster now": (130.0, None, 130.0),
    "the lowest of both": (70.0, SHRUNK, 70.0),
}


@pytest.mark.parametrize(("present", "shrunk", "p"), LAG_RATES.values(), ids=LAG_RATES.keys())
def test_lag_shows_that_tasks_do_less(present: float | None, shrunk: object, p: float) -> None:
    found = rate_with_lag(rate(100.0), load(240.0), 3, present, shrunk, POLICY)  # type: ignore[arg-type]
    assert found == p


@pytest.mark.parametrize(("memory", "tasks"), [(125, 4), (124, 5), (250, 2), (2000, 1)])
def test_fewer_tasks_have_more_state_each(memory: int, tasks: int) -> None:
    assert memory_needed(100 * MIB, POLICY) == 125 * MIB
    assert tasks_for_memory(100 * MIB, 4, memory * MIB, POLICY) == tasks
