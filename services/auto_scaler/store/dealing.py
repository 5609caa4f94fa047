"""What is read of a job that lags: what its tasks measured of their key groups, where they are, and what was done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from penstock.model.reports import TaskState
from penstock.store.health import REPORTED_AT, SIGHTINGS
from penstock.store.rows import read_all, read_first
from services.auto_scaler.decide.model import Action, PastMove, PastRebalance
from services.auto_scaler.store.decisions import PENDING, UNAVAILABLE


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """What a container says of a task, with nothing of `progress` but the traffic."""

    index: int
    container: str
    epoch: int
    state: str
    progress: Mapping[str, Any] | None
    reported_at: datetime


_REPORTS = text(
    f"""
    SELECT tasks.index, tasks.container, tasks.epoch, tasks.state, {REPORTED_AT} AS reported_at,
        jsonb_build_object('key_group_rates', tasks.progress->'key_group_rates') AS progress
    FROM tasks {SIGHTINGS} JOIN running ON running.job = tasks.job AND running.generation = tasks.generation
    WHERE tasks.job = :job
    """
)
_LAST_REBALANCE = text(
    """
    SELECT at, CAST(inputs->'config'->>'task_count' AS integer) AS tasks,
        CAST(inputs->'symptoms'->>'time_lagged_seconds' AS double precision) AS lag_seconds
    FROM decisions WHERE job = :job AND at >= CAST(:since AS timestamptz) AND outcome = 'written' AND action = :action
    ORDER BY id DESC LIMIT 1
    """
)
# Without an answer a move may have been done.
_MOVES = text(
    """
    SELECT DISTINCT ON (index) at, index, outcome LIKE 'refused%' AS refused
    FROM decisions CROSS JOIN LATERAL (SELECT CAST(change->>'index' AS integer) AS index) moved
    WHERE job = :job AND at >= CAST(:since AS timestamptz) AND action = :action
        AND (outcome IN ('written', :pending, :unavailable) OR outcome LIKE 'refused%')
    ORDER BY index, id DESC
    """
)


def read_reports(connection: Connection, job: str) -> list[TrafficReport]:
    """The reports of the tasks of a job's present generation: ranges of another one are not those that are dealt."""
    return read_all(connection, TrafficReport, _REPORTS, {"job": job})


def last_rebalance(connection: Connection, job: str, *, since: datetime) -> PastRebalance | None:
    """The newest rebalance of a job that was written."""
    asked = {"job": job, "since": since, "action": Action.REBALANCE.value}
    return read_first(connection, PastRebalance, _LAST_REBALANCE, asked)


def moves(connection: Connection, job: str, *, since: datetime) -> tuple[PastMove, ...]:
    """The newest move of each task of a job that was asked for, in order of index."""
    asked = {"job": job, "since": since, "action": Action.MOVE_TASK.value}
    return tuple(read_all(connection, PastMove, _MOVES, {**asked, "pending": PENDING, "unavailable": UNAVAILABLE}))


def containers_of(reports: Iterable[TrafficReport], task_count: int) -> tuple[str | None, ...]:
    """The container of each task that runs, by the newest assignment; None where none is reported."""
    found: list[str | None] = [None] * task_count
    for report in sorted(reports, key=lambda report: report.epoch):
        if report.state == TaskState.RUNNING and report.index < task_count:
            found[report.index] = report.container
    return tuple(found)
