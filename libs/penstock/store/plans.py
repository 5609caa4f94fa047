"""The State Syncer's recorded plans, and the generations that they take. Those of rescales are few, however many jobs
there are; rollouts are as many as the budget has room for, and not read all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, text

from penstock.tasks.selectors import offered

IS_ROLLOUT = "s.plan->>'kind' = 'rollout'"
"""A plan of the sync state `s` that is one of a rollout; all others are of rescales."""

_READ = text(
    f"""
    SELECT s.job, s.plan, GREATEST(r.generation, r.newest_generation) AS newest_generation, j.deleting
    FROM sync_state s JOIN running r ON r.job = s.job JOIN jobs j ON j.name = s.job
    WHERE s.plan IS NOT NULL AND ({IS_ROLLOUT}) IS NOT TRUE
    """
)
_COUNT_ROLLOUTS = text(
    f"""
    SELECT count(*) FROM sync_state s JOIN jobs j ON j.name = s.job
    WHERE s.plan IS NOT NULL AND {IS_ROLLOUT} AND NOT j.deleting
    """
)
_CONTAINERS = text("SELECT name, url, region, labels FROM containers WHERE state = 'live'")
_COUNT = text("SELECT count(*) FROM running")

_NEW = """json_to_recordset(CAST(:rows AS json)) AS new(
        job text, plan jsonb, step int, generation bigint, seconds jsonb, rejected jsonb)"""
_WRITE = text(f"UPDATE sync_state AS held SET plan = new.plan, step = new.step FROM {_NEW} WHERE held.job = new.job")
_TAKE = text(
    f"""
    UPDATE running AS held SET newest_generation = GREATEST(held.newest_generation, new.generation)
    FROM {_NEW} WHERE held.job = new.job AND new.generation IS NOT NULL
    """
)
_REJECT = text(
    f"""
    UPDATE sync_state AS held SET rejected = new.rejected || jsonb_build_object('layer_version', coalesce(
        (SELECT version FROM expected_layers e WHERE e.job = new.job AND e.layer = 'rollback'), 0))
    FROM {_NEW} WHERE held.job = new.job AND new.rejected IS NOT NULL
    """
)
_MEASURED = text(
    f"""
    UPDATE running AS held SET rescale_seconds = new.seconds
    FROM {_NEW} WHERE held.job = new.job AND new.seconds IS NOT NULL
    """
)


class PlanRow(NamedTuple):
    """A recorded plan as JSON, and the highest generation that its job ever took."""

    plan: Mapping[str, Any]
    newest_generation: int
    deleting: bool


class LiveContainer(NamedTuple):
    """Where a container is reached, and what it offers (`penstock.tasks.selectors`)."""

    url: str
    offers: frozenset[str]


class PlanWrite(NamedTuple):
    """The record of a job's plan to be; None ends it. `step` is its index among the plan's steps.

    `generation` is the number that the plan takes. `seconds`: what the plan's steps took, once it has ended well.
    `rejected`: a `penstock.tasks.rollout.Rejected` as JSON, for a rollout that is halted.
    """

    job: str
    plan: Mapping[str, Any] | None
    step: int | None = None
    generation: int | None = None
    seconds: Mapping[str, float] | None = None
    rejected: Mapping[str, Any] | None = None


def read_plans(connection: Connection) -> dict[str, PlanRow]:
    """The recorded plans of rescales, by job."""
    return {row.job: PlanRow(row.plan, row.newest_generation, row.deleting) for row in connection.execute(_READ)}


def count_rollouts(connection: Connection) -> int:
    """How many rollouts are recorded of jobs that are not being deleted."""
    return int(connection.execute(_COUNT_ROLLOUTS).scalar_one())


def read_live_containers(connection: Connection) -> dict[str, LiveContainer]:
    """The containers that are not lost, by name."""
    return {
        row.name: LiveContainer(row.url, offered(row.region, row.labels)) for row in connection.execute(_CONTAINERS)
    }


def count_running(connection: Connection) -> int:
    """The number of jobs that have a running configuration."""
    return int(connection.execute(_COUNT).scalar_one())


def write_plans(connection: Connection, writes: Sequence[PlanWrite]) -> None:
    """Records plans of jobs that have a sync state, and takes their generations; the caller has checked its epoch."""
    if not writes:
        return
    rows = {"rows": orjson.dumps([write._asdict() for write in writes]).decode()}
    for statement in (_WRITE, _TAKE, _MEASURED, _REJECT):
        connection.execute(statement, rows)
