"""The recorded plans, the generations that they take, and the containers that may be asked to carry them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, text

from penstock.store.json import as_json
from penstock.tasks.selectors import offered
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import Plan, PlanRow
from services.state_syncer.host_tasks.next_attempt import LiveContainer

IS_ROLLOUT = "s.plan->>'kind' = 'rollout'"
"""Whether the recorded plan of the sync state `s` is one of a rollout; all others are of rescales."""

# Plans of rescales: few, however many jobs there are.
_READ_RESCALES = text(
    f"""
    SELECT s.job, s.plan, GREATEST(r.generation, r.newest_generation) AS newest_generation, j.deleting,
        r.asks_for_tasks AS runs
    FROM sync_state s JOIN running r ON r.job = s.job JOIN jobs j ON j.name = s.job
    WHERE s.plan IS NOT NULL AND ({IS_ROLLOUT}) IS NOT TRUE
    """
)
_READ_LIVE_CONTAINERS = text("SELECT name, url, region, labels FROM containers WHERE state = 'live'")
# Rows of `running` are wide. A job in one of these states has one for sure; of the others, which are few, some have.
_RUNS = "s.state IN ('synced', 'queued', 'rescaling', 'rolling')"
_COUNT_RUNNING = text(
    f"""
    SELECT (SELECT count(*) FROM sync_state s WHERE {_RUNS})
        + (SELECT count(*) FROM sync_state s JOIN running r ON r.job = s.job WHERE NOT {_RUNS})
    """
)

_NEW = """json_to_recordset(CAST(:rows AS json)) AS new(
        job text, plan jsonb, step int, generation bigint, seconds jsonb, rejected jsonb)"""
# An operator's order ends with the rollout that it is about.
_RECORD = text(
    f"""
    UPDATE sync_state AS held SET plan = new.plan, step = new.step,
        rollout_order = CASE WHEN new.plan->>'begun_at' = held.rollout_order->>'begun_at' THEN held.rollout_order END
    FROM {_NEW} WHERE held.job = new.job
    """
)
# An attempt has a number that was never used, so it can meet no other attempt.
_TAKE_GENERATIONS = text(
    f"""
    UPDATE running AS held SET newest_generation = GREATEST(held.newest_generation, new.generation)
    FROM {_NEW} WHERE held.job = new.job
    """
)
_RECORD_REJECTED = text(
    f"""
    UPDATE sync_state AS held SET rejected = new.rejected || jsonb_build_object('layer_version', coalesce(
        (SELECT version FROM expected_layers e WHERE e.job = new.job AND e.layer = 'rollback'), 0))
    FROM {_NEW} WHERE held.job = new.job
    """
)
_RECORD_SECONDS = text(f"UPDATE running AS held SET rescale_seconds = new.seconds FROM {_NEW} WHERE held.job = new.job")


def read_plans(connection: Connection) -> dict[str, PlanRow]:
    """The recorded plans of rescales, by job."""
    rows = connection.execute(_READ_RESCALES)
    return {row.job: PlanRow(row.plan, row.newest_generation, row.deleting, row.runs) for row in rows}


def read_live_containers(connection: Connection) -> dict[str, LiveContainer]:
    """The containers that are not lost, by name."""
    rows = connection.execute(_READ_LIVE_CONTAINERS)
    return {row.name: LiveContainer(row.url, offered(row.region, row.labels)) for row in rows}


def count_running(connection: Connection) -> int:
    """The number of jobs that have a running configuration."""
    return int(connection.execute(_COUNT_RUNNING).scalar_one())


def write_plans(connection: Connection, writes: Sequence[PlanWrite]) -> None:
    """Records plans of jobs that have a sync state, and takes their generations; the caller has checked its epoch."""
    rows = [_row(write) for write in writes]
    for statement, which in (
        (_RECORD, "job"),
        (_TAKE_GENERATIONS, "generation"),
        (_RECORD_SECONDS, "seconds"),
        (_RECORD_REJECTED, "rejected"),
    ):
        chosen = [row for row in rows if row[which] is not None]
        if chosen:
            connection.execute(statement, {"rows": as_json(chosen)})


def _row(write: PlanWrite) -> dict[str, Any]:
    plan = write.plan
    return {
        "job": write.job,
        "plan": None if plan is None else orjson.Fragment(plan.model_dump_json()),
        "step": None if plan is None else plan.step_number,
        "generation": plan.generation if isinstance(plan, Plan) else None,
        "seconds": write.seconds,
        "rejected": None if write.rejected is None else write.rejected.model_dump(mode="json"),
    }
