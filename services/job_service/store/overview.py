"""Reads of the tables that other services write. NULL stays None: unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select, text

from penstock.store.cluster_tables import task_metrics, tasks
from penstock.store.tables import decisions, running, sync_state
from penstock.wire.overview import DecisionView, SampleView, ShardView


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
    from that at `changed_from`, or from the running one without it. `step` counts the plan's actions from 0.
    `rejected`: a `penstock.tasks.rollout.Rejected` as JSON.
    """

    state: str
    detail: str
    revision: int
    change_kind: str
    changed_fields: Sequence[str] | None
    changed_from: int | None
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
    """The sync state of a job; None before the first round about the job."""
    columns = [sync_state.c[name] for name in SyncRow.__slots__]
    row = connection.execute(select(*columns).where(sync_state.c.job == job)).first()
    return None if row is None else SyncRow(*row)


def reported_tasks(connection: Connection, job: str) -> Sequence[ReportedTask]:
    """All tasks of a job that containers report, by index and container."""
    columns = [tasks.c[name] for name in ReportedTask.__slots__]
    wanted = select(*columns).where(tasks.c.job == job).order_by(tasks.c.index, tasks.c.container)
    return [ReportedTask(*row) for row in connection.execute(wanted)]


def samples(connection: Connection, job: str, *, window: timedelta, limit: int) -> Sequence[SampleView]:
    """At most `limit` samples of a job's tasks from the last `window`, newest first."""
    columns = [task_metrics.c[name] for name in SampleView.model_fields]
    recent = (task_metrics.c.job == job, task_metrics.c.minute >= func.now() - window)
    order = (task_metrics.c.minute.desc(), task_metrics.c.index)
    return [
        SampleView(**row._mapping)
        for row in connection.execute(select(*columns).where(*recent).order_by(*order).limit(limit))
    ]


def decisions_page(
    connection: Connection, job: str, *, limit: int, before_id: int | None = None
) -> Sequence[DecisionView]:
    """At most `limit` scaling decisions of a job, newest first, from below `before_id`."""
    columns = [decisions.c[name] for name in DecisionView.model_fields]
    statement = select(*columns).where(decisions.c.job == job).order_by(decisions.c.id.desc()).limit(limit)
    if before_id is not None:
        statement = statement.where(decisions.c.id < before_id)
    return [DecisionView(**row._mapping) for row in connection.execute(statement)]


def shards_page(
    connection: Connection, *, limit: int, after: int = -1, container: str | None = None
) -> Sequence[ShardView]:
    """At most `limit` shards by number, from after `after`; of one container when it is given."""
    parameters = {"limit": limit, "after": after, "container": container}
    return [ShardView(**row._mapping) for row in connection.execute(_SHARDS, parameters)]


def owners(connection: Connection, shards: Sequence[int]) -> dict[int, str | None]:
    """The containers that own these shards; shards that were never assigned are left out."""
    rows = connection.execute(
        text("SELECT shard, container FROM assignment WHERE shard = ANY(:shards)"), {"shards": list(set(shards))}
    )
    return {row.shard: row.container for row in rows}
