"""Past days at the same time of day: what is compared, what is unusual, which peaks count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from services.auto_scaler.decide.model import PastDay, Workload
from services.auto_scaler.decide.patterns import (
    JobMinute,
    arrivals,
    compared_days,
    is_unusual,
    usual_soon,
    workload,
    worst_ahead,
)
from services.auto_scaler.decide.policy import Policy
from tests.support.auto_scaler import NOW, past

POLICY = Policy()
DAY = 1440


def series(rate: Callable[[int], float | None], days: int = 3) -> Mapping[datetime, float]:
    """By minute, the rate as a function of the minutes until now, which are negative in the past."""
    found = ((NOW + timedelta(minutes=offset), rate(offset)) for offset in range(-days * DAY - 60, 0))
    return {minute: value for minute, value in found if value is not None}


def peak(first: int, last: int, height: float = 500.0) -> Callable[[int], float]:
    """100 rows a second, but more in these minutes of each day, counted from the time of day that it is now."""
    return lambda offset: height if first <= (offset + DAY // 2) % DAY - DAY // 2 <= last else 100.0


AHEAD = {
    "flat": (peak(9999, 9999), 100.0, 100.0),
    "a peak soon": (peak(20, 40), 500.0, 500.0),
    "a peak in the next hours": (peak(120, 140), 100.0, 500.0),
    "within the slack before now": (peak(-15, -11), 100.0, 500.0),
    "a peak beyond the hours": (peak(256, 300), 100.0, 100.0),
    "one wild minute is smoothed": (peak(120, 120), 100.0, 180.0),
}


@pytest.mark.parametrize(("rate", "soon", "ahead"), AHEAD.values(), ids=AHEAD.keys())
def test_the_peaks_of_past_days(rate: Callable[[int], float], soon: float, ahead: float) -> None:
    found = workload(series(rate), NOW + timedelta(seconds=30), POLICY)
    assert [(day.days_ago, day.recent, day.soon, day.ahead) for day in found.days] == [
        (days_ago, found.days[0].recent, soon, ahead) for days_ago in (1, 2, 3)
    ]
    assert (usual_soon(found), worst_ahead(found, POLICY)) == (soon, ahead)


def test_of_a_day_that_was_not_measured_nothing_is_known() -> None:
    gaps = series(lambda offset: None if -2 * DAY <= offset < -2 * DAY + 30 else 100.0)
    assert [day.days_ago for day in workload(gaps, NOW, POLICY).days] == [1, 3]


def test_too_few_of_the_last_minutes_are_unknown() -> None:
    found = workload(series(lambda offset: None if offset > -5 else 100.0), NOW, POLICY)
    assert (found.recent, found.days[0].recent) == (None, 100.0)


def test_a_catch_up_is_no_peak() -> None:
    """100 rows/s come in throughout. For two minutes nothing is read, then more than comes in; a minute is missing."""
    read = [(0, 100.0, 0.0), (1, 0.0, 6000.0), (2, 0.0, 12_000.0), (3, 300.0, 0.0), (5, 90.0, 600.0), (6, 80.0, None)]
    found = arrivals([JobMinute(NOW + timedelta(minutes=at), rows, backlog) for at, rows, backlog in read])
    assert list(found.values()) == [100.0, 100.0, 100.0, 100.0, 90.0, 80.0]


def test_a_backlog_that_is_gone_at_once_is_no_input_below_zero() -> None:
    gone = [JobMinute(NOW, 1.0, 60_000.0), JobMinute(NOW + timedelta(minutes=1), 1.0, 0.0)]
    assert list(arrivals(gone).values()) == [1.0, 0.0]


def test_without_minutes_nothing_came_in() -> None:
    assert arrivals([]) == {}


UNUSUAL = {
    "as usual": (100.0, False),
    "somewhat more": (150.0, False),
    "much more": (151.0, True),
    "somewhat less": (67.0, False),
    "much less": (66.0, True),
    "nothing at all": (0.0, True),
    "unknown": (None, True),
}


@pytest.mark.parametrize(("recent", "expected"), UNUSUAL.values(), ids=UNUSUAL.keys())
def test_what_is_unlike_past_days(recent: float | None, expected: bool) -> None:
    assert is_unusual(past(recent), POLICY) is expected


def test_no_days_are_nothing_to_be_unlike() -> None:
    assert not is_unusual(past(900.0, days=0), POLICY)
    assert not is_unusual(past(None, days=0), POLICY)


def day(days_ago: int, rate: float) -> PastDay:
    return PastDay(days_ago=days_ago, recent=rate, soon=rate, ahead=rate)


def test_the_same_weekday_counts_once_there_are_two() -> None:
    """A week has one busy day, which is today: seven and fourteen days ago."""
    week = [day(days_ago, 500.0 if days_ago % 7 == 0 else 100.0) for days_ago in range(1, 14)]
    one = Workload(recent=500.0, days=tuple(week))
    assert (usual_soon(one), worst_ahead(one, POLICY), len(compared_days(one))) == (100.0, 500.0, 13)
    assert is_unusual(one, POLICY)
    two = Workload(recent=500.0, days=(*week, day(14, 520.0)))
    assert (usual_soon(two), worst_ahead(two, POLICY), len(compared_days(two))) == (510.0, 520.0, 2)
    assert not is_unusual(two, POLICY)


PEAK_SINCE = {"yesterday": ([1], 500.0), "the day before": ([2], 500.0), "earlier": ([3, 4, 5, 6, 8], 100.0)}


@pytest.mark.parametrize(("peaks", "expected"), PEAK_SINCE.values(), ids=PEAK_SINCE.keys())
def test_a_peak_of_the_newest_days_counts_though_the_weekday_had_none(peaks: list[int], expected: float) -> None:
    days = [day(days_ago, 500.0 if days_ago in peaks else 100.0) for days_ago in range(1, 15)]
    found = Workload(recent=100.0, days=tuple(days))
    assert (worst_ahead(found, POLICY), usual_soon(found)) == (expected, 100.0)
