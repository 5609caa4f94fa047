"""What is read of one job for a replay: its decisions with all their inputs, its minutes, its last rescale."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from penstock.model.job_metrics import METRICS_BY_NAME, JobMinutes
from penstock.store.job_minutes import read_job_minutes
from services.auto_scaler.replay.recorded import METRICS, StoredDecision

# The newest one before the time tells what was known when it began.
_DECISIONS = text(
    """
    (SELECT id, at, action, change, outcome, inputs FROM decisions
     WHERE job = :job AND at < CAST(:since AS timestamptz) AND at >= CAST(:created_at AS timestamptz)
     ORDER BY id DESC LIMIT 1)
    UNION ALL
    (SELECT id, at, action, change, outcome, inputs FROM decisions
     WHERE job = :job AND at >= CAST(:since AS timestamptz) AND at < CAST(:until AS timestamptz)
     ORDER BY id LIMIT :limit)
    ORDER BY id
    """
)
_RESCALE = text("SELECT rescale_seconds FROM running WHERE job = :job")
MOST_DECISIONS = 10_000


class ReplayRows(NamedTuple):
    """`rescale_seconds`: of the steps of the last rescale, None without one. `is_cut`: there are more decisions."""

    decisions: list[StoredDecision]
    minutes: JobMinutes
    rescale_seconds: Mapping[str, float] | None
    is_cut: bool


def read_rows(
    connection: Connection, job: str, *, created_at: datetime, before: datetime, since: datetime, until: datetime
) -> ReplayRows:
    """Decisions from `since` until before `until`, and the one before them; minutes from `before` on, or from when the
    job was created."""
    asked = {"job": job, "since": since, "until": until, "created_at": created_at, "limit": MOST_DECISIONS + 1}
    found = [
        StoredDecision(row.at, row.action, row.change, row.outcome, row.inputs)
        for row in connection.execute(_DECISIONS, asked)
    ]
    metrics = [METRICS_BY_NAME[name] for name in METRICS]
    minutes = read_job_minutes(connection, job, max(before, created_at), until, metrics)
    seconds = connection.execute(_RESCALE, {"job": job}).scalar_one_or_none()
    return ReplayRows(found[: MOST_DECISIONS + 1], minutes, seconds, len(found) > MOST_DECISIONS)
