"""What past days say about the next hours (Turbine, ICDE 2020, section V-C 2).

Days are compared at the same time of day, some minutes to either side. Where two weeks are known, the same
weekday counts, and for a reduction the newest days too. Past days count for nothing while the last half hour is unlike
theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean, median
from typing import NamedTuple

from services.auto_scaler.decide.model import PastDay, Workload
from services.auto_scaler.decide.policy import Policy

_SMOOTHED_MINUTES = 5
_DAYS_A_WEEK = 7
_LEAST_WEEKS = 2
_MINUTE = timedelta(minutes=1)


class JobMinute(NamedTuple):
    """What all tasks of a job read together in a minute, in rows per second, and what waited then, None if unknown."""

    minute: datetime
    read: float
    backlog: float | None = None


def arrivals(minutes: Sequence[JobMinute]) -> dict[datetime, float]:
    """What came in, by minute, from minutes in their order: what was read, and by what the backlog grew.

    So the rush of a catch-up is no peak. Where the minute before is not known, only what was read counts.
    """
    pairs = zip([None, *minutes], minutes, strict=False)
    return {each.minute: max(0.0, each.read + _growth(before, each)) for before, each in pairs}


def _growth(before: JobMinute | None, each: JobMinute) -> float:
    if before is None or before.backlog is None or each.backlog is None or each.minute - before.minute != _MINUTE:
        return 0.0
    return (each.backlog - before.backlog) / _MINUTE.total_seconds()


def workload(rows_per_second: Mapping[datetime, float], now: datetime, policy: Policy) -> Workload:
    """What came in, from the rates by minute. Of a day with too few minutes nothing is known."""
    this_minute = now.replace(second=0, microsecond=0)
    days = [_past_day(rows_per_second, this_minute, days_ago, policy) for days_ago in range(1, policy.history_days + 1)]
    return Workload(
        recent=recent_mean(rows_per_second, this_minute, policy),
        days=tuple(day for day in days if day.ahead is not None),
    )


def recent_mean(rows_per_second: Mapping[datetime, float], this_minute: datetime, policy: Policy) -> float | None:
    """What came in in the last minutes on average; None when too few of them are known."""
    return _mean(_known(rows_per_second, this_minute, -policy.recent_minutes, 0), policy.recent_minutes, policy)


def _past_day(rates: Mapping[datetime, float], now: datetime, days_ago: int, policy: Policy) -> PastDay:
    then, slack = now - timedelta(days=days_ago), policy.slack_minutes
    return PastDay(
        days_ago=days_ago,
        recent=recent_mean(rates, then, policy),
        soon=_peak(rates, then, 0, policy.soon_minutes + slack, policy),
        ahead=_peak(rates, then, -slack, policy.ahead_minutes + slack, policy),
    )


def _known(rates: Mapping[datetime, float], then: datetime, first: int, end: int) -> list[float]:
    found, at = [], then + first * _MINUTE
    for _ in range(end - first):
        rate = rates.get(at)
        if rate is not None:
            found.append(rate)
        at += _MINUTE
    return found


def _mean(known: Sequence[float], minutes: int, policy: Policy) -> float | None:
    return fmean(known) if known and len(known) >= policy.least_coverage * minutes else None


def _peak(rates: Mapping[datetime, float], then: datetime, first: int, end: int, policy: Policy) -> float | None:
    """The greatest mean of five minutes, so that one wild minute is no peak."""
    parts = [
        _known(rates, then, begin, min(begin + _SMOOTHED_MINUTES, end))
        for begin in range(first, end, _SMOOTHED_MINUTES)
    ]
    if sum(map(len, parts)) < policy.least_coverage * (end - first):
        return None
    return max(fmean(part) for part in parts if part)


def compared_days(found: Workload) -> tuple[PastDay, ...]:
    """The days to go by: those of the same weekday where two are known, otherwise all."""
    same = tuple(day for day in found.days if day.days_ago % _DAYS_A_WEEK == 0)
    return same if len(same) >= _LEAST_WEEKS else found.days


def usual_now(found: Workload) -> float | None:
    """What came in on past days in the minutes like the last ones."""
    known = [day.recent for day in compared_days(found) if day.recent is not None]
    return fmean(known) if known else None


def is_unusual(found: Workload, policy: Policy) -> bool:
    """Whether the last minutes are unlike those of past days, by more than the ratio either way; or are unknown."""
    usual = usual_now(found)
    if usual is None:
        return False
    if found.recent is None:
        return True
    low, high = sorted((usual, found.recent))
    return high > policy.unusual_ratio * low


def worst_ahead(found: Workload, policy: Policy) -> float | None:
    """The greatest peak of the hours after now: a reduction must last through each of them.

    The newest days count besides those compared: what has begun this week is no habit of the weekday yet.
    """
    newest = tuple(day for day in found.days if day.days_ago <= policy.least_days)
    return max((day.ahead for day in (*compared_days(found), *newest) if day.ahead is not None), default=None)


def usual_soon(found: Workload) -> float | None:
    """The peak of the next minutes on an ordinary one of the days compared."""
    known = [day.soon for day in compared_days(found) if day.soon is not None]
    return median(known) if known else None


def usual_ahead(found: Workload) -> float | None:
    """The peak of the hours after now on an ordinary one of the days compared."""
    known = [day.ahead for day in compared_days(found) if day.ahead is not None]
    return median(known) if known else None
