"""What comes into each key group of a job, from what its tasks report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from pydantic import ValidationError

from penstock.config.model import JobConfig
from penstock.model.reports import KeyGroupRates, TaskState
from penstock.tasks.spec import key_group_count

OLDEST = timedelta(minutes=10)
Rates = tuple[float | None, ...]


class Report(Protocol):
    """A task as a container reports it; `progress` as in `TaskProgress`, None when nothing is known."""

    @property
    def state(self) -> str: ...

    @property
    def progress(self) -> Mapping[str, Any] | None: ...

    @property
    def reported_at(self) -> datetime: ...


def measured(reports: Iterable[Report], config: JobConfig, now: datetime, *, min_seconds: float) -> Rates:
    """Records per second by key group; None where it is unknown.

    A rate is unknown when no running task reported it in the last 10 minutes, or measured it for less than
    `min_seconds`.
    """
    rates: list[float | None] = [None] * key_group_count(config)
    for report in sorted(reports, key=lambda report: report.reported_at):
        found = _of(report) if report.state == TaskState.RUNNING and now - report.reported_at <= OLDEST else None
        if found is None or found.seconds < min_seconds:
            continue
        for group, rate in enumerate(found.records_per_second, found.first):
            if 0 <= group < len(rates):
                rates[group] = rate
    return tuple(rates)


def _of(report: Report) -> KeyGroupRates | None:
    """The rates in a report; None when there are none, or another version wrote them."""
    rates = (report.progress or {}).get("key_group_rates")
    try:
        return None if rates is None else KeyGroupRates.model_validate(rates)
    except ValidationError:
        return None
