"""Reads of the tables that other services write. NULL stays None: unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from penstock.store.health import ALIVE_AT, FAILED_OVER, REPORTED_AT, SIGHTINGS
from penstock.store.rows import columns, read_all, read_first, read_page
from penstock.wire.overview import AlertRow, DecisionView, GenerationView, LeaderView, SampleView, ShardView


@dataclass(frozen=True, slots=True)
class RunningRow:
    """The running configuration of a job. `started`: some commit asked for tasks. `rescale_seconds`: the duration of
    each step of the last rescale, and `total`; None if the job was never rescaled."""

    config: Mapping[str, Any]
    revision: int
    generation: int
    restarts: int
    stopping: bool
    started: bool
    commit_number: int
    committed_at: datetime
    rescale_seconds: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class SyncRow:
    """What the State Syncer says of a job.

    `changed_fields` None: nobody has compared them yet. They are those by which the configuration at `revision` differs
    from the running one, or from what ran before once the job is synced. `step` counts the plan's actions from 0.
    `rejected`, `rollout_order`: a `Rejected` and an `OrderedRollout` of `penstock.tasks.rollout` as JSON.
    """

    state: str
    detail: str
    revision: int
    change_kind: str
    changed_fields: Sequence[str] | None
    plan: Any
    rejected: Mapping[str, Any] | None
    rollout_order: Mapping[str, Any] | None
    step: int | None
    failures: int
    next_attempt_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ReportedTask:
    """A task as a container reports it. `alive_at`, `failed_over`: of the container (`penstock.model.health`)."""

    job: str
    index: int
    container: str
    state: str
    revision: int
    generation: int
    restarts: int
    epoch: int
    crashes: int
    error: str | None
    out_of_memory: bool
    progress: Mapping[str, Any] | None
    reported_at: datetime
    alive_at: datetime | None = None
    failed_over: bool = False


_SHARDS = text(
    """
    SELECT shard, container, epoch, moved_at FROM assignment
    WHERE shard > :after AND (CAST(:container AS text) IS NULL OR container = :container)
    ORDER BY shard LIMIT :limit
    """
)
_RUNNING = text(f"SELECT {columns(RunningRow)} FROM running WHERE job = :job")
_RUNNING_JOBS = text(f"SELECT job, {columns(RunningRow)} FROM running WHERE job = ANY(:jobs)")
_SYNC = text(f"SELECT {columns(SyncRow)} FROM sync_state WHERE job = :job")
_DISRUPTED = text(
    """
    SELECT s.job, count(*) OVER () AS jobs FROM sync_state s JOIN running r ON r.job = s.job
    WHERE s.plan IS NOT NULL AND (s.plan->>'kind' = 'rollout' OR s.plan->>'step' <> 'copy_state' AND r.asks_for_tasks)
    ORDER BY s.job LIMIT :limit
    """
)
_GENERATIONS = text(
    """
    SELECT generation, attempted, unused_since, container IS NOT NULL AS collecting, detail
    FROM generations WHERE job = :job AND collected_at IS NULL ORDER BY generation
    """
)
_REPORTED = f"""
    SELECT tasks.job, tasks.index, tasks.container, tasks.state, tasks.revision, tasks.generation, tasks.restarts,
        tasks.epoch, tasks.crashes, tasks.error, tasks.out_of_memory, tasks.progress,
        {REPORTED_AT} AS reported_at, {ALIVE_AT} AS alive_at, {FAILED_OVER} AS failed_over
    FROM tasks {SIGHTINGS}"""
_TASKS = text(f"{_REPORTED} WHERE tasks.job = :job ORDER BY tasks.index, tasks.container")
_TASKS_ON = text(
    f"""{_REPORTED} WHERE tasks.container = :container AND (tasks.job, tasks.index) > (:job, :index)
    ORDER BY tasks.job, tasks.index LIMIT :limit"""
)
_SAMPLES = text(
    f"""
    SELECT {columns(SampleView)} FROM task_metrics WHERE job = :job AND minute >= now() - :window
    ORDER BY minute DESC, index LIMIT :limit
    """
)
# An acknowledgement that has ended is none.
_ALERTS = """(
    SELECT id, kind, subject, message, details, times, raised_at, last_at, cleared_at,
        CASE WHEN is_acknowledged THEN acknowledged_by END AS acknowledged_by,
        CASE WHEN is_acknowledged THEN acknowledged_at END AS acknowledged_at,
        CASE WHEN is_acknowledged THEN acknowledged_until END AS acknowledged_until,
        CASE WHEN is_acknowledged THEN acknowledged_reason END AS acknowledged_reason,
        (SELECT max(silences.id) FROM silences WHERE silences.expires_at > now()
            AND (silences.kind IS NULL OR silences.kind = alerts.kind) AND alerts.subject LIKE subject_like) AS silence
    FROM (SELECT alerts.*, acknowledged_at IS NOT NULL AND coalesce(acknowledged_until > now(), true) AS is_acknowledged
        FROM alerts) AS alerts) AS shown"""
_OPEN_BY_KIND = text(
    f"SELECT kind, count(*) AS alerts FROM {_ALERTS} WHERE cleared_at IS NULL AND silence IS NULL GROUP BY kind"
)
# What may explain how a job runs: alerts about it, its tasks and layers, these containers, and the whole cell.
_ALERTS_ABOUT = text(
    f"""
    SELECT {columns(AlertRow)} FROM {_ALERTS} WHERE cleared_at IS NULL AND (
        subject = :job OR starts_with(subject, :job || '/') OR subject = ANY(:containers) OR kind = ANY(:of_cell))
    ORDER BY id LIMIT :limit
    """
)
_LEADERS = text(
    """
    SELECT name AS loop, holder, url, epoch,
        CASE WHEN isfinite(expires_at) THEN extract(epoch FROM expires_at - clock_timestamp()) ELSE 0 END
            AS expires_in_seconds,
        extract(epoch FROM clock_timestamp() - taken_at) AS leads_for_seconds
    FROM leases ORDER BY name
    """
)
_OWNERS = text("SELECT shard, container FROM assignment WHERE shard = ANY(:shards)")


def running_job(connection: Connection, job: str) -> RunningRow | None:
    """The running configuration of a job; None when it has none."""
    return read_first(connection, RunningRow, _RUNNING, {"job": job})


def running_jobs(connection: Connection, jobs: Sequence[str]) -> dict[str, RunningRow]:
    """The running configurations of those of these jobs that have one."""
    rows = [{**row} for row in connection.execute(_RUNNING_JOBS, {"jobs": list(jobs)}).mappings()]
    return {row.pop("job"): RunningRow(**row) for row in rows}


def sync(connection: Connection, job: str) -> SyncRow | None:
    """The sync state of a job; None before the first round about the job."""
    return read_first(connection, SyncRow, _SYNC, {"job": job})


def disrupted_jobs(connection: Connection, *, limit: int) -> tuple[list[str], int]:
    """The first `limit` jobs, by name, whose tasks a rescale or a rollout keeps from their work now, and how many there
    are."""
    rows = connection.execute(_DISRUPTED, {"limit": limit}).all()
    return [row.job for row in rows], rows[0].jobs if rows else 0


def noted_generations(connection: Connection, job: str) -> list[GenerationView]:
    """A job's generations of checkpoints whose files are there, as far as the State Syncer noted them."""
    return read_all(connection, GenerationView, _GENERATIONS, {"job": job})


def reported_tasks(connection: Connection, job: str) -> list[ReportedTask]:
    """All tasks of a job that containers report, by index and container."""
    return read_all(connection, ReportedTask, _TASKS, {"job": job})


def tasks_on(connection: Connection, container: str, *, limit: int, after: tuple[str, int]) -> list[ReportedTask]:
    """At most `limit` tasks that a container reports, by job and index, from after the task `after`."""
    asked = {"container": container, "job": after[0], "index": after[1], "limit": limit}
    return read_all(connection, ReportedTask, _TASKS_ON, asked)


def samples(connection: Connection, job: str, *, window: timedelta, limit: int) -> list[SampleView]:
    """At most `limit` samples of a job's tasks from the last `window`, newest first."""
    return read_all(connection, SampleView, _SAMPLES, {"job": job, "window": window, "limit": limit})


def decisions_page(connection: Connection, job: str, *, limit: int, before_id: int | None = None) -> list[DecisionView]:
    """At most `limit` scaling decisions of a job, newest first, from below `before_id`."""
    return read_page(connection, DecisionView, "decisions", {"job": job}, key="id", limit=limit, below=before_id)


def alerts_page(
    connection: Connection,
    *,
    limit: int,
    before_id: int | None = None,
    include_cleared: bool = False,
    include_silenced: bool = False,
    **where: int | str | None,
) -> list[AlertRow]:
    """At most `limit` alerts, newest first, from below `before_id`; only open ones that no silence leaves out, unless
    asked otherwise. `where`: by `id`, `kind` or `subject`."""
    shown = [] if include_cleared else ["cleared_at IS NULL"]
    shown += [] if include_silenced else ["silence IS NULL"]
    table = f"(SELECT * FROM {_ALERTS} WHERE {' AND '.join(shown) or 'true'}) AS asked"
    return read_page(connection, AlertRow, table, where, key="id", limit=limit, below=before_id)


def alerts_about(
    connection: Connection, job: str, containers: Sequence[str], of_cell: Sequence[str], *, limit: int
) -> list[AlertRow]:
    """At most `limit` open alerts, the oldest first, also silenced ones: about a job, its tasks and layers, and these
    containers, and all of the kinds `of_cell`."""
    asked = {"job": job, "containers": list(containers), "of_cell": list(of_cell), "limit": limit}
    return read_all(connection, AlertRow, _ALERTS_ABOUT, asked)


def open_by_kind(connection: Connection) -> dict[str, int]:
    """The number of open alerts that no silence leaves out, by kind; without the kinds that have none."""
    return {row.kind: row.alerts for row in connection.execute(_OPEN_BY_KIND)}


def leaders(connection: Connection) -> list[LeaderView]:
    """The leader of each loop by its name, and the last one of a loop without a leader."""
    return read_all(connection, LeaderView, _LEADERS)


def shards_page(
    connection: Connection, *, limit: int, after: int = -1, container: str | None = None
) -> list[ShardView]:
    """At most `limit` shards by number, from after `after`; of one container when it is given."""
    parameters = {"limit": limit, "after": after, "container": container}
    return read_all(connection, ShardView, _SHARDS, parameters)


def owners(connection: Connection, shards: Sequence[int]) -> dict[int, str | None]:
    """The containers that own these shards; shards that were never assigned are left out."""
    rows = connection.execute(_OWNERS, {"shards": list(set(shards))})
    return {row.shard: row.container for row in rows}
