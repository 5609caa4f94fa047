"""What is read of a job that lags: what its tasks measured of their key groups, and its newest rebalance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from penstock.store.health import REPORTED_AT, SIGHTINGS
from penstock.store.rows import read_all, read_first
from services.auto_scaler.decide.model import Action, PastRebalance


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """What a container says of a task, with nothing of `progress` but the traffic."""

    state: str
    progress: Mapping[str, Any] | None
    reported_at: datetime


_REPORTS = text(
    f"""
    SELECT tasks.state, {REPORTED_AT} AS reported_at,
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


def read_reports(connection: Connection, job: str) -> list[TrafficReport]:
    """The reports of the tasks of a job's present generation: ranges of another one are not those that are dealt."""
    return read_all(connection, TrafficReport, _REPORTS, {"job": job})


def last_rebalance(connection: Connection, job: str, *, since: datetime) -> PastRebalance | None:
    """The newest rebalance of a job that was written."""
    asked = {"job": job, "since": since, "action": Action.REBALANCE.value}
    return read_first(connection, PastRebalance, _LAST_REBALANCE, asked)
