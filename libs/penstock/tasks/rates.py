"""How long a job stands still and needs to catch up, from what it measured. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.tasks.host_task import COPY_STATE

_WHILE_RUNNING = (COPY_STATE, "quiesce", "level", "taken_back")


class Rates(NamedTuple):
    """Of all tasks of a job together, in rows per second and records; None is unknown.

    `processed_rows_per_second` is that of batches while they run: the greatest rate that is known to be possible.
    """

    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    backlog_records: int | None = None


def catch_up_seconds(rates: Rates, downtime_seconds: float | None) -> float | None:
    """Seconds from the end of a downtime until all that waits is processed, should the rates stay as they were.

    None when something is unknown, or the job is no faster than its input.
    """
    came, done, backlog = rates
    if came is None or done is None or backlog is None or downtime_seconds is None or done <= came:
        return None
    return round((backlog + came * downtime_seconds) / (done - came), 1)


def stopped_seconds(seconds: Mapping[str, float] | None) -> float | None:
    """For how long the job stood still, of the seconds of all steps of its last rescale; None without one."""
    if seconds is None or "total" not in seconds:
        return None
    return round(seconds["total"] - sum(seconds.get(step, 0.0) for step in _WHILE_RUNNING), 3)
