"""Which series a caller asks for, and the answer of a job: bounded in time, in points and in metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from penstock.control.errors import InvalidConfig
from penstock.model.job_metrics import (
    JOB_METRICS,
    METRICS_BY_NAME,
    MINUTE,
    JobMetric,
    JobMinutes,
    in_steps,
    minute_of,
)
from penstock.wire.overview import JobSeries, MetricSeries

MOST_POINTS = 1_500
MOST_DAYS = 31
_DEFAULT_SPAN = timedelta(hours=1)
_SLACK = timedelta(days=1)
"""A caller's clock may be ahead."""


class Span(NamedTuple):
    """Whole minutes from `since` until before `until`, in steps of whole minutes."""

    since: datetime
    until: datetime
    step_minutes: int

    @property
    def steps(self) -> int:
        """How many steps there are; the last may be shorter."""
        return -(-((self.until - self.since) // MINUTE) // self.step_minutes)


def span_of(since: datetime | None, until: datetime | None, step_seconds: int | None, now: datetime) -> Span:
    """What a call asks for. Without times: the last hour. Without a step: the shortest that gives few enough points.

    Raises InvalidConfig for times that are none, and for a step that gives too many points.
    """
    end = minute_of(now if until is None else _sane(until, "to", now))
    begin = end - _DEFAULT_SPAN if since is None else minute_of(_sane(since, "from", now))
    if begin >= end:
        raise InvalidConfig("from must lie before to, in another minute", field="from", rule="before_to")
    if end - begin > timedelta(days=MOST_DAYS):
        raise InvalidConfig(f"from may lie at most {MOST_DAYS} days before to", field="from", rule="most_days")
    minutes = (end - begin) // MINUTE
    least_minutes = -(-minutes // MOST_POINTS)
    step_minutes = least_minutes if step_seconds is None else step_seconds // 60
    if step_minutes < least_minutes:
        raise InvalidConfig(
            f"a series has at most {MOST_POINTS} points: ask for steps of at least {60 * least_minutes} s",
            field="step_seconds",
            rule="most_points",
        )
    return Span(begin, end, step_minutes)


def series_of(job: str, of: Span, metrics: Iterable[JobMetric], found: JobMinutes) -> JobSeries:
    """The answer, with a value of each step."""
    series = [
        MetricSeries(
            metric=metric.name, unit=metric.unit, values=in_steps(metric, found.values[metric.name], of.step_minutes)
        )
        for metric in metrics
    ]
    return JobSeries(job=job, since=of.since, until=of.until, step_seconds=60 * of.step_minutes, series=series)


def known_metrics(names: Sequence[str]) -> Sequence[JobMetric]:
    """The metrics of these names; of no name: all. Raises InvalidConfig for one that does not exist."""
    unknown = [name for name in names if name not in METRICS_BY_NAME]
    if unknown:
        known = ", ".join(METRICS_BY_NAME)
        raise InvalidConfig(f"there is no metric {unknown[0]}; there are {known}", field="metric", rule="known")
    return [metric for metric in JOB_METRICS if not names or metric.name in names]


def _sane(moment: datetime, field: str, now: datetime) -> datetime:
    """Raises InvalidConfig for a time that no minute of a job can have."""
    if not datetime(2000, 1, 1, tzinfo=UTC) <= moment <= now + _SLACK:
        raise InvalidConfig(f"{field} must lie between the year 2000 and now", field=field, rule="not_in_future")
    return moment
