"""Reads about the cluster, over the tables that other services write. NULL stays None: unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select, text

from penstock.store.cluster_tables import task_metrics, tasks
from penstock.store.tables import decisions, running, sync_state


@dataclass(frozen=True, slots=True)
class RunningRow:
    """What the cluster has been brought to. `started`: tasks were asked for once. `rescale_seconds`: what the steps of
    the last rescale took, and `total`; None without one."""

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
    """What the State Syncer says of a job. `step` counts the plan's actions from 0. `rejected`: a
    `penstock.tasks.rollout.Rejected` as JSON."""

    state: str
    detail: str
    revision: int
    change_kind: str
    changed_fields: Sequence[str]
    plan: Any
    rejected: Mapping[str, Any] | None
    step: int | None
    failures: int
    next_attempt_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ReportedTask:
    """A task as a container reports it."""

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


@dataclass(frozen=True, slots=True)
class Sample:
    """A task's measurements of one minute."""

    index: int
    minute: datetime
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    input_bytes_per_second: float | None
    backlog_records: int | None
    backlog_bytes: int | None
    lag_seconds: float | None
    state_rows: int | None
    state_memory_bytes: int | None
    batch_seconds: float | None
    out_of_memory: bool


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A scaling decision with all its inputs; `change` None where nothing was to be changed."""

    id: int
    at: datetime
    symptom: str
    action: str
    inputs: Mapping[str, Any]
    change: Mapping[str, Any] | None
    outcome: str


@dataclass(frozen=True, slots=True)
class ShardRow:
    """A shard and its owner; `container` None: nobody owns it."""

    shard: int
    container: str | None
    epoch: int
    moved_at: datetime


_SHARDS = text(
    """
    SELECT shard, container, epoch, moved_at FROM assignment
    WHERE shard > :after AND (CAST(:container AS text) IS NULL OR container = :container)
    ORDER BY shard LIMIT :limit
    """
)


def running_job(connection: Connection, job: str) -> RunningRow | None:
    """The running configuration of a job; None when it has none."""
    columns = [running.c[name] for name in RunningRow.__slots__]
    row = connection.execute(select(*columns).where(running.c.job == job)).first()
    return None if row is None else RunningRow(*row)


def sync(connection: Connection, job: str) -> SyncRow | None:
    """The sync state of a job; None when the State Syncer never looked at it."""
    columns = [sync_state.c[name] for name in SyncRow.__slots__]
    row = connection.execute(select(*columns).where(sync_state.c.job == job)).first()
    return None if row is None else SyncRow(*row)


def reported_tasks(connection: Connection, job: str) -> Sequence[ReportedTask]:
    """All tasks of a job that containers report, by index and container."""
    columns = [tasks.c[name] for name in ReportedTask.__slots__]
    wanted = select(*columns).where(tasks.c.job == job).order_by(tasks.c.index, tasks.c.container)
    return [ReportedTask(*row) for row in connection.execute(wanted)]


def samples(connection: Connection, job: str, *, window: timedelta, limit: int) -> Sequence[Sample]:
    """At most `limit` samples of a job's tasks from the last `window`, newest first."""
    columns = [task_metrics.c[name] for name in Sample.__slots__]
    recent = (task_metrics.c.job == job, task_metrics.c.minute >= func.now() - window)
    order = (task_metrics.c.minute.desc(), task_metrics.c.index)
    return [Sample(*row) for row in connection.execute(select(*columns).where(*recent).order_by(*order).limit(limit))]


def decisions_page(
    connection: Connection, job: str, *, limit: int, before_id: int | None = None
) -> Sequence[DecisionRow]:
    """At most `limit` scaling decisions of a job, newest first, from below `before_id`."""
    columns = [decisions.c[name] for name in DecisionRow.__slots__]
    statement = select(*columns).where(decisions.c.job == job).order_by(decisions.c.id.desc()).limit(limit)
    if before_id is not None:
        statement = statement.where(decisions.c.id < before_id)
    return [DecisionRow(*row) for row in connection.execute(statement)]


def shards_page(
    connection: Connection, *, limit: int, after: int = -1, container: str | None = None
) -> Sequence[ShardRow]:
    """At most `limit` shards by number, from after `after`; of one container when it is given."""
    parameters = {"limit": limit, "after": after, "container": container}
    return [ShardRow(*row) for row in connection.execute(_SHARDS, parameters)]


def owners(connection: Connection, shards: Sequence[int]) -> dict[int, str | None]:
    """The containers that own these shards; shards that were never assigned are left out."""
    rows = connection.execute(
        text("SELECT shard, container FROM assignment WHERE shard = ANY(:shards)"), {"shards": list(set(shards))}
    )
    return {row.shard: row.container for row in rows}
