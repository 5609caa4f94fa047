"""How far work is behind its input, in seconds. Pure. None is unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Flow(NamedTuple):
    """What a task measured: unread records, the rate at which it works while it works, the rate of the last minute, in
    records per second, the age of a batch that is not finished, and the greatest age that an unread record can have."""

    backlog_records: float | None = None
    processed_per_second: float | None = None
    read_per_second: float | None = None
    oldest_unread_seconds: float | None = None
    oldest_unread_at_most_seconds: float | None = None


class JobFlow(NamedTuple):
    """Of all tasks of a job together. `lag_seconds` is that of the task that lags most."""

    backlog_records: int | None = None
    lag_seconds: float | None = None
    read_per_second: float | None = None


class Lag(NamedTuple):
    """How far a task is behind its input. `seconds`: None when it is unknown. `at_least`, `at_most`: what is sure; None
    without anything sure."""

    seconds: float | None
    at_least: float | None
    at_most: float | None = None


MEASURED = (
    "backlog_records",
    "processed_rows_per_second",
    "oldest_unread_seconds",
    "oldest_unread_at_most_seconds",
)
"""Of a task's progress, what `lag_of` takes, in its order."""


def lag_seconds(backlog: float | None, rate: float | None) -> float | None:
    """Seconds of work that wait: backlog / processing rate (Turbine, ICDE 2020, section V), of records or of bytes.

    Nothing that waits is no lag, whatever the rate. Something that waits is an unknown lag without a rate, and at rate
    zero: the task may stand still, or nobody has measured it yet.
    """
    if backlog is None:
        return None
    if backlog == 0:
        return 0.0
    return backlog / rate if rate else None


def lag_of(
    backlog_records: float | None,
    processed_rows_per_second: float | None,
    oldest_unread_seconds: float | None,
    oldest_unread_at_most_seconds: float | None,
) -> Lag:
    """The lag of a task: the time to process its backlog at the present rate, within the age of its oldest record.

    The rate is that of finished batches. Meanwhile the records of a batch that is not finished grow older: the lag is
    no less than their age. And no task is further behind than its oldest unread record is old: small batches show a
    small rate, and many records that have just come would be a lag of hours.
    """
    by_rate = lag_seconds(backlog_records, processed_rows_per_second)
    if by_rate is None:
        return Lag(None, oldest_unread_seconds, oldest_unread_at_most_seconds)
    if not backlog_records:
        return Lag(0.0, 0.0, 0.0)
    at_most = by_rate if oldest_unread_at_most_seconds is None else min(by_rate, oldest_unread_at_most_seconds)
    seconds = max(at_most, oldest_unread_seconds or 0.0)
    return Lag(seconds, seconds, seconds)


def job_flow(flows: Iterable[Flow | None], task_count: int) -> JobFlow:
    """Sums over all tasks, and the lag of the slowest one. A figure is None if one of the `task_count` tasks does not
    report it.

    `flows`: one for each task, None for a task of which nothing is known. A job without tasks has an unknown lag.
    """
    known = [flow for flow in flows if flow is not None]
    if not known or len(known) < task_count:
        return JobFlow()
    backlog = _all([flow.backlog_records for flow in known])
    lags = _all([_lag(flow).seconds for flow in known])
    read = _all([flow.read_per_second for flow in known])
    return JobFlow(
        None if backlog is None else int(sum(backlog)),
        None if lags is None else max(lags),
        None if read is None else sum(read),
    )


def _lag(flow: Flow) -> Lag:
    ages = (flow.oldest_unread_seconds, flow.oldest_unread_at_most_seconds)
    return lag_of(flow.backlog_records, flow.processed_per_second, *ages)


def _all(values: list[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None
