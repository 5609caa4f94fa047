"""How far work is behind its input, in seconds. Pure. None is unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Flow(NamedTuple):
    """What a task measured: unread records, the rate at which it works while it works, and the rate of the last minute,
    in records per second."""

    backlog_records: float | None = None
    processed_per_second: float | None = None
    read_per_second: float | None = None


class JobFlow(NamedTuple):
    """Of all tasks of a job together. `lag_seconds` is that of the task that lags most."""

    backlog_records: int | None = None
    lag_seconds: float | None = None
    read_per_second: float | None = None


def lag_seconds(backlog: float | None, rate: float | None) -> float | None:
    """Seconds of work that wait: backlog / processing rate (002 section V-A), of records or of bytes.

    Nothing that waits is no lag, whatever the rate. Something that waits is an unknown lag without a rate, and at rate
    zero: the task may stand still, or nobody has measured it yet.
    """
    if backlog is None:
        return None
    if backlog == 0:
        return 0.0
    return backlog / rate if rate else None


def job_flow(flows: Iterable[Flow | None], task_count: int) -> JobFlow:
    """The sums, and the greatest lag; each is unknown if it is unknown of one of the `task_count` tasks.

    `flows`: one for each task, None for a task of which nothing is known. A job without tasks has an unknown lag.
    """
    known = [flow for flow in flows if flow is not None]
    if not known or len(known) < task_count:
        return JobFlow()
    backlog = _all([flow.backlog_records for flow in known])
    lags = _all([lag_seconds(flow.backlog_records, flow.processed_per_second) for flow in known])
    read = _all([flow.read_per_second for flow in known])
    return JobFlow(
        None if backlog is None else int(sum(backlog)),
        None if lags is None else max(lags),
        None if read is None else sum(read),
    )


def _all(values: list[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None
