"""What the Job Service reads of rollouts, and what operators ask of them. The State Syncer carries that out."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.model.alerts import AlertKind
from penstock.store.rows import read_first
from penstock.tasks.rollout import OrderedRollout
from services.job_service.rollouts import NOTHING_RECORDED, RecordedRollout

_READ = """
    SELECT s.detail, s.plan, s.rollout_order, (
        SELECT message FROM alerts WHERE kind = :refused AND subject = :job AND cleared_at IS NULL) AS refused
    FROM sync_state s WHERE s.job = :job
"""
_ORDER = text("UPDATE sync_state SET rollout_order = CAST(:order AS jsonb) WHERE job = :job")


def read(connection: Connection, job: str, *, lock: bool = False) -> RecordedRollout:
    """What is recorded of a job; with `lock` the State Syncer cannot end its rollout until the transaction ends."""
    values = {"job": job, "refused": AlertKind.ROLLBACK_REFUSED.value}
    statement = text(f"{_READ} FOR UPDATE OF s" if lock else _READ)
    return read_first(connection, RecordedRollout, statement, values) or NOTHING_RECORDED


def order(connection: Connection, job: str, asked: OrderedRollout | None) -> None:
    """Records what is asked of the rollout of a job that was read with `lock`; None: nothing any more."""
    connection.execute(_ORDER, {"job": job, "order": None if asked is None else asked.model_dump_json()})
