"""What a round reads: running jobs with their layers, their newest decisions and their newest measurements."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from services.auto_scaler.algorithm import DayHistory
from services.auto_scaler.evidence import LastDecision, ScaledJob
from services.auto_scaler.store.decisions import PENDING
from services.auto_scaler.symptoms import TaskSample

SCALER_LAYER = "scaler"
_NEVER_WRITTEN = 0
_MEASURED = tuple(TaskSample.model_fields.keys() - {"index", "out_of_memory"})

_JOBS = text(
    """
    SELECT r.job, r.config, r.committed_at, r.revision >= j.revision AS converged,
        mine.version AS layer_version,
        layered.below, layered.above,
        newest.symptom, newest.action, newest.outcome, acted.at AS acted_at
    FROM running r
    JOIN jobs j ON j.name = r.job
    JOIN layers scaler ON scaler.name = :layer
    LEFT JOIN expected_layers mine ON mine.job = r.job AND mine.layer = :layer
    LEFT JOIN LATERAL (
        SELECT array_agg(e.config ORDER BY l.rank) FILTER (WHERE l.rank < scaler.rank) AS below,
            array_agg(e.config ORDER BY l.rank) FILTER (WHERE l.rank > scaler.rank) AS above
        FROM expected_layers e JOIN layers l ON l.name = e.layer
        WHERE e.job = r.job AND e.config IS NOT NULL
    ) layered ON true
    LEFT JOIN LATERAL (
        SELECT d.symptom, d.action, d.outcome FROM decisions d
        WHERE d.job = r.job AND d.at >= j.created_at ORDER BY d.id DESC LIMIT 1
    ) newest ON true
    LEFT JOIN LATERAL (
        SELECT d.at FROM decisions d
        WHERE d.job = r.job AND d.at >= j.created_at
            AND (d.outcome IN ('written', :pending) OR d.outcome LIKE 'refused%')
        ORDER BY d.id DESC LIMIT 1
    ) acted ON true
    WHERE NOT j.deleting AND NOT r.stopping AND r.config->>'desired_state' = 'running'
    ORDER BY r.job
    """
)

# Of each task the newest sample that was made wholly after the job's last commit: an older one measured another
# configuration. `out_of_memory`: in any minute of the window.
_SAMPLES = text(
    """
    SELECT DISTINCT ON (m.job, m.index) m.job, m.index,
        m.input_rows_per_second, m.processed_rows_per_second, m.input_bytes_per_second,
        m.backlog_records, m.backlog_bytes,
        bool_or(m.out_of_memory) OVER (PARTITION BY m.job, m.index) AS out_of_memory,
        m.minute >= CAST(:fresh_since AS timestamptz) AS fresh
    FROM task_metrics m JOIN running r ON r.job = m.job
    WHERE m.minute >= CAST(:since AS timestamptz) AND m.minute >= r.committed_at
    ORDER BY m.job, m.index, m.minute DESC
    """
)

# A minute counts as measured when the job's worst task has a known lag in it.
_DAY = text(
    """
    SELECT count(*) FILTER (WHERE lag IS NOT NULL) AS measured,
        count(*) FILTER (WHERE lag > :slo_seconds) AS lagging,
        count(*) FILTER (WHERE out_of_memory) AS out_of_memory
    FROM (
        SELECT minute, max(lag_seconds) AS lag, bool_or(out_of_memory) AS out_of_memory
        FROM task_metrics WHERE job = :job AND minute >= CAST(:since AS timestamptz) GROUP BY minute
    ) minutes
    """
)
_SMALLEST = text("SELECT min(memory_bytes) FROM containers WHERE state = 'live'")


def read_scaled_jobs(connection: Connection) -> list[ScaledJob]:
    """All jobs that have tasks."""
    parameters = {"layer": SCALER_LAYER, "pending": PENDING}
    return [_scaled_job(row) for row in connection.execute(_JOBS, parameters)]


def _scaled_job(row: Row[Any]) -> ScaledJob:
    return ScaledJob(
        job=row.job,
        config=row.config,
        committed_at=row.committed_at,
        converged=row.converged,
        layer_version=row.layer_version or _NEVER_WRITTEN,
        below=tuple(row.below or ()),
        above=tuple(row.above or ()),
        last=None if row.symptom is None else LastDecision(row.symptom, row.action, row.outcome),
        acted_at=row.acted_at,
    )


def read_samples(connection: Connection, *, since: datetime, fresh_since: datetime) -> dict[str, list[TaskSample]]:
    """By job, the newest sample of each task that was measured between `since` and now.

    Of a sample from before `fresh_since` only the lack of memory is kept: the rest is unknown now.
    """
    samples: dict[str, list[TaskSample]] = {}
    for row in connection.execute(_SAMPLES, {"since": since, "fresh_since": fresh_since}):
        measured = {name: getattr(row, name) for name in _MEASURED} if row.fresh else {}
        sample = TaskSample(index=row.index, out_of_memory=row.out_of_memory, **measured)
        samples.setdefault(row.job, []).append(sample)
    return samples


def read_day(connection: Connection, job: str, *, since: datetime, slo_seconds: float) -> DayHistory:
    """The minutes of a job since a time."""
    row = connection.execute(_DAY, {"job": job, "since": since, "slo_seconds": slo_seconds}).one()
    return DayHistory(
        minutes_measured=row.measured, minutes_lagging=row.lagging, minutes_out_of_memory=row.out_of_memory
    )


def smallest_container_memory(connection: Connection) -> int | None:
    """Bytes of the smallest live container; None when none is live."""
    found = connection.execute(_SMALLEST).scalar_one()
    return None if found is None else int(found)
