"""Rollouts that go on, without configurations; the tasks of their waves; and the alert of a rejected package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from penstock.model.alerts import AlertKind
from penstock.model.health import SILENT
from penstock.store.alerts import clear_alerts, raise_alert
from penstock.store.cluster import read_facts
from penstock.store.health import read_moment
from penstock.store.selectors import selector_in
from penstock.tasks.rollout import SeenTask
from penstock.tasks.spec import task_id
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.view import RollingJob
from services.state_syncer.decide.waves import NOTHING_PROVEN, Rolling, Rollout
from services.state_syncer.store.plans import IS_ROLLOUT
from services.state_syncer.store.recorded import order_of
from services.state_syncer.store.states import sync_record

# A batch with rows is behind a reported task `t`; NULL is no. Compared as JSON: a cast of a malformed report would end
# the round of all jobs.
_HAS_WORKED = """t.progress->'batch_id' <> 'null'
            AND jsonb_typeof(t.progress->'input_rows') = 'number' AND t.progress->'input_rows' > '0'"""

# `changed`: what is expected, on the basis of merges, is not what goes out; or something else was asked of the job.
# Where digests are missing nobody knows, so the configurations are read.
_READ_ROLLING = text(
    f"""
    SELECT s.job, j.revision, j.restarts, j.deleting, r.generation, s.plan, s.rollout_order,
        s.state, s.detail, s.revision AS sync_revision, s.change_kind, s.changed_fields, s.failures, s.next_attempt_at,
        (r.stopping OR EXISTS (SELECT FROM restores w WHERE w.job = s.job)
            OR (e.basis = :basis AND e.digests = r.digests AND e.digests <> '{{}}') IS NOT TRUE) AS changed
    FROM sync_state s
        JOIN jobs j ON j.name = s.job
        JOIN running r ON r.job = s.job
        LEFT JOIN expected_configs e ON e.job = s.job
    WHERE s.plan IS NOT NULL AND {IS_ROLLOUT}
    """
)

# Reports of a container's present life only: an earlier one tells nothing of what runs now.
_TASKS = text(
    f"""
    SELECT t.job, t.index AS number, t.container, t.state, t.revision, t.generation, t.restarts, t.crashes, t.error,
        {_HAS_WORKED} AS has_worked, {selector_in("running.config")} AS selector, r.reported_at
    FROM tasks t
        LEFT JOIN running ON running.job = t.job
        JOIN containers c ON c.name = t.container AND c.state = 'live'
        JOIN reports r ON r.container = c.name AND r.incarnation = c.incarnation
    WHERE t.job = ANY(:jobs)
    """
)
# Nothing, if these are no longer the shards of that count.
_OWNERS = text(
    """
    SELECT shard, container FROM assignment
    WHERE shard = ANY(:shards)
        AND (SELECT value FROM cluster WHERE key = 'shard_count') = to_jsonb(CAST(:count AS integer))
    """
)


class RollingJobs(NamedTuple):
    """The jobs with a recorded rollout, and the names of those whose plan this version cannot read."""

    jobs: Sequence[RollingJob] = ()
    unreadable: Sequence[str] = ()


def read_rolling_jobs(connection: Connection, basis: str) -> RollingJobs:
    """All jobs with a recorded rollout; `basis` is that of merges."""
    rows = connection.execute(_READ_ROLLING, {"basis": basis}).all()
    tasks = read_wave_tasks(connection, [row.job for row in rows])
    found = {row.job: _rolling_job(row, tasks.get(row.job, {})) for row in rows}
    readable = [job for job in found.values() if job is not None]
    return RollingJobs(readable, [name for name, job in found.items() if job is None])


def _rolling_job(row: Row[Any], tasks: Mapping[int, SeenTask]) -> RollingJob | None:
    try:
        rolling = Rolling(Rollout.model_validate(row.plan), tasks, order_of(row.rollout_order))
        sync = sync_record(row)
    except ValueError:
        return None
    return RollingJob(
        row.job,
        row.revision,
        row.restarts,
        row.deleting,
        sync,
        generation=row.generation,
        rolling=rolling,
        changed=row.changed,
    )


def read_wave_tasks(connection: Connection, jobs: Sequence[str]) -> dict[str, dict[int, SeenTask]]:
    """The tasks of jobs by index; those that no live owner has reported are absent."""
    if not jobs:
        return {}
    sharding = read_facts(connection).sharding
    rows = [
        (sharding.shard_of(task_id(row.job, row.number), row.selector), row)
        for row in connection.execute(_TASKS, {"jobs": list(jobs)})
    ]
    values = {"shards": sorted({shard for shard, _ in rows if shard is not None}), "count": sharding.count}
    owners = {row.shard: row.container for row in connection.execute(_OWNERS, values)}
    now = read_moment(connection).now
    found: dict[str, dict[int, SeenTask]] = {}
    for shard, row in rows:
        if shard is not None and owners.get(shard) == row.container:
            told = (row.state, row.revision, row.generation, row.restarts, row.crashes, row.error, bool(row.has_worked))
            task = SeenTask(*told, silent_since=row.reported_at if now - row.reported_at > SILENT else None)
            found.setdefault(row.job, {})[row.number] = task
    return found


def alert_of_plans(connection: Connection, writes: Sequence[PlanWrite]) -> None:
    """Raises and closes what the plans of these jobs say: that a wave is late, or that a rollout is halted."""
    late = {write.job: write.plan for write in writes if isinstance(write.plan, Rollout) and write.plan.late}
    clear_alerts(connection, AlertKind.ROLLOUT_LATE, [write.job for write in writes if write.job not in late])
    for job, plan in late.items():
        details = {"revision": plan.revision, "wave": plan.wave + 1, "waves": len(plan.ends), "late": plan.late}
        raise_alert(connection, AlertKind.ROLLOUT_LATE, job, f"the rollout is paused: {plan.describe()}", details)
    for write in writes:
        if write.rejected is not None and write.rejected.goes_back:
            clear_alerts(connection, AlertKind.ROLLOUT_HALTED, [write.job])
        elif write.rejected is not None:
            message = f"the rollout is halted, with {NOTHING_PROVEN}: {write.rejected.about(write.job)}"
            raise_alert(connection, AlertKind.ROLLOUT_HALTED, write.job, message, write.rejected.details)


def clear_rejected(connection: Connection, jobs: Sequence[str]) -> None:
    """Closes the alerts about the rejected packages of these jobs."""
    for kind in (AlertKind.ROLLED_BACK, AlertKind.ROLLBACK_REFUSED, AlertKind.ROLLOUT_HALTED):
        clear_alerts(connection, kind, jobs)
