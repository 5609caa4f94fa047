"""What a round reads: running jobs with their layers, their newest decisions and their newest measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, text

from services.auto_scaler.decide.model import Action, JobUpdate, PastChange
from services.auto_scaler.decide.symptoms import TaskSample
from services.auto_scaler.evidence import LastDecision, Profile, ScaledJob
from services.auto_scaler.store.decisions import PENDING, UNAVAILABLE

SCALER_LAYER = "scaler"
_NEVER_WRITTEN = 0
# Each minute has one at most.
_COUNTED_DECISIONS = 60
_TASK_ACTIONS = [Action.INCREASE_TASKS.value, Action.DECREASE_TASKS.value, Action.UNDO.value]
_MEASURED = tuple(TaskSample.model_fields.keys() - {"index", "out_of_memory"})

# Of a decision that nobody answered the layer tells: the reason of its newest write begins with the decision's number.
_CARRIED_OUT = """(d.outcome = 'written'
    OR d.outcome IN (:pending, :unavailable) AND mine.reason LIKE 'decision ' || d.id || ':%')"""
_JOBS = f"""
    SELECT r.job, j.created_at, r.config, r.committed_at, r.revision >= j.revision AS converged,
        mine.version AS layer_version,
        layered.below, layered.above,
        newest.symptom, newest.action, newest.outcome, newest.change, acted.at AS acted_at,
        counted.in_last_hour, newest.reason,
        changed.at AS changed_at, changed.action AS changed_by, changed.before, changed.after, changed.lag,
        changed.rate, changed.came_in, updated.at AS updated_at, updated.author,
        profiled.config AS profiled_config, profiled.batches AS profiled_batches, profiled.low AS profiled_low
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
        SELECT d.symptom, d.action, d.outcome, d.change, d.inputs->>'reason' AS reason FROM decisions d
        WHERE d.job = r.job AND d.at >= j.created_at ORDER BY d.id DESC LIMIT 1
    ) newest ON true
    LEFT JOIN LATERAL (
        SELECT d.at FROM decisions d
        WHERE d.job = r.job AND d.at >= j.created_at
            AND ({_CARRIED_OUT} OR d.outcome = :pending OR d.outcome LIKE 'refused%'
                OR d.outcome = :unavailable AND d.action = :move)
        ORDER BY d.id DESC LIMIT 1
    ) acted ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS in_last_hour FROM (
            SELECT d.at, {_CARRIED_OUT} OR d.outcome = :pending AS acts
            FROM decisions d WHERE d.job = r.job ORDER BY d.id DESC LIMIT :counted
        ) latest
        WHERE latest.at > CAST(:hour AS timestamptz) AND latest.acts
    ) counted
    LEFT JOIN LATERAL (
        SELECT d.at, d.action, CAST(d.change->>'task_count' AS integer) AS after,
            CAST(d.inputs->'config'->>'task_count' AS integer) AS before,
            CAST(d.inputs->'symptoms'->>'time_lagged_seconds' AS double precision) AS lag,
            CAST(d.inputs->'symptoms'->>'processed_rows_per_second' AS double precision) AS rate,
            CAST(d.inputs->'state'->'load'->>'rows_per_second' AS double precision) AS came_in
        FROM decisions d
        WHERE d.job = r.job AND d.at >= j.created_at AND {_CARRIED_OUT} AND d.action = ANY(:task_actions)
            AND d.change->>'task_count' IS NOT NULL AND d.inputs->'config'->>'task_count' IS NOT NULL
        ORDER BY d.id DESC LIMIT 1
    ) changed ON true
    LEFT JOIN LATERAL (
        SELECT h.at, h.author FROM history h
        WHERE h.job = r.job AND h.layer <> :layer AND h.revision <= r.revision
        ORDER BY h.id DESC LIMIT 1
    ) updated ON true
    LEFT JOIN LATERAL (
        SELECT p.config, CAST(p.report->>'batches' AS integer) AS batches,
            CAST(p.report->>'low_rows_per_second' AS double precision) AS low
        FROM profiles p
        WHERE p.job = r.job AND p.state = 'done' ORDER BY p.number DESC LIMIT 1
    ) profiled ON true
    WHERE NOT j.deleting AND NOT r.stopping AND r.config->>'desired_state' = 'running'
"""
# What a statement found is read while the transaction is idle, and the store ends one that is idle for long.
_PAGE = 2_000
_NEXT_JOBS = text(f"{_JOBS} AND r.job > :after ORDER BY r.job LIMIT :most")
_ONE_JOB = text(f"{_JOBS} AND r.job = :job")

# Of each task the newest sample that was made wholly after the job's last commit: an older one measured another
# configuration. `out_of_memory`: in any minute of the window.
_SAMPLES = text(
    """
    SELECT DISTINCT ON (m.job, m.index) m.job, m.index,
        m.input_rows_per_second, m.processed_rows_per_second, m.input_bytes_per_second,
        m.backlog_records, m.backlog_bytes, m.lag_seconds,
        bool_or(m.out_of_memory) OVER (PARTITION BY m.job, m.index) AS out_of_memory,
        m.minute >= CAST(:fresh_since AS timestamptz) AS fresh
    FROM task_metrics m JOIN running r ON r.job = m.job
    WHERE m.minute >= CAST(:since AS timestamptz) AND m.minute >= r.committed_at
    ORDER BY m.job, m.index, m.minute DESC
    """
)

_SMALLEST = text("SELECT min(memory_bytes) FROM containers WHERE state = 'live'")


def read_scaled_jobs(connection: Connection, now: datetime) -> list[ScaledJob]:
    """All jobs that have tasks, by name."""
    found: list[ScaledJob] = []
    while True:
        page = {"after": found[-1].job if found else "", "most": _PAGE}
        rows = connection.execute(_NEXT_JOBS, page | _parameters(now)).all()
        found += map(_scaled_job, rows)
        if len(rows) < _PAGE:
            return found


def read_scaled_job(connection: Connection, job: str, now: datetime) -> ScaledJob | None:
    """One job; None when it has no tasks."""
    row = connection.execute(_ONE_JOB, {"job": job, **_parameters(now)}).first()
    return None if row is None else _scaled_job(row)


def _parameters(now: datetime) -> dict[str, Any]:
    return {
        "layer": SCALER_LAYER,
        "pending": PENDING,
        "unavailable": UNAVAILABLE,
        "move": Action.MOVE_TASK.value,
        "counted": _COUNTED_DECISIONS,
        "hour": now - timedelta(hours=1),
        "task_actions": _TASK_ACTIONS,
    }


def _scaled_job(row: Row[Any]) -> ScaledJob:
    return ScaledJob(
        job=row.job,
        created_at=row.created_at,
        config=row.config,
        committed_at=row.committed_at,
        converged=row.converged,
        layer_version=row.layer_version or _NEVER_WRITTEN,
        below=tuple(row.below or ()),
        above=tuple(row.above or ()),
        last=None if row.symptom is None else _last(row),
        acted_at=row.acted_at,
        actions_last_hour=row.in_last_hour,
        last_change=_last_change(row),
        update=None if row.updated_at is None else JobUpdate(at=row.updated_at, author=row.author),
        profile=None if row.profiled_config is None else _profile(row),
    )


def _profile(row: Row[Any]) -> Profile:
    return Profile(row.profiled_config, row.profiled_batches, row.profiled_low)


def _last(row: Row[Any]) -> LastDecision:
    return LastDecision(row.symptom, row.action, row.outcome, row.change, row.reason or "")


def _last_change(row: Row[Any]) -> PastChange | None:
    if row.changed_at is None:
        return None
    return PastChange(
        at=row.changed_at,
        action=Action(row.changed_by),
        tasks_before=row.before,
        tasks_after=row.after,
        lag_seconds=row.lag,
        processed_rows_per_second=row.rate,
        input_rows_per_second=row.came_in,
    )


def read_samples(connection: Connection, *, since: datetime, fresh_since: datetime) -> Sequence[Row[Any]]:
    """The newest sample of each task that was measured between `since` and now, for `samples_of`: outside of the
    transaction, as a cell has a million."""
    return connection.execute(_SAMPLES, {"since": since, "fresh_since": fresh_since}).all()


def samples_of(rows: Iterable[Row[Any]]) -> dict[str, list[TaskSample]]:
    """The samples by job. Of one from before `fresh_since` only the lack of memory is kept: the rest is unknown now."""
    samples: dict[str, list[TaskSample]] = {}
    for row in rows:
        measured = {name: getattr(row, name) for name in _MEASURED} if row.fresh else {}
        sample = TaskSample(index=row.index, out_of_memory=row.out_of_memory, **measured)
        samples.setdefault(row.job, []).append(sample)
    return samples


def smallest_container_memory(connection: Connection) -> int | None:
    """Bytes of the smallest live container; None when none is live."""
    found = connection.execute(_SMALLEST).scalar_one()
    return None if found is None else int(found)
