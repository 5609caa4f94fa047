"""Scaling decisions with all that they were made from. Written by the Auto Scaler alone, fenced by its epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, text

from penstock.store import leases

AUTO_SCALER = "auto_scaler"
# The outcome of a decision that is being carried out; one that stays so was cut off by the end of its process.
PENDING = "pending"

_INSERT = text(
    """
    INSERT INTO decisions (job, at, symptom, action, inputs, change, outcome, leader_epoch)
    SELECT new.job, new.at, new.symptom, new.action, new.inputs, new.change, new.outcome, :leader_epoch
    FROM json_to_recordset(CAST(:rows AS json)) AS new(
        position int, job text, at timestamptz, symptom text, action text, inputs jsonb, change jsonb, outcome text)
    ORDER BY new.position
    RETURNING id
    """
)
_SETTLE = text("UPDATE decisions SET outcome = :outcome WHERE id = :id AND outcome = :pending")
_READ = text("SELECT * FROM decisions WHERE job = :job ORDER BY id DESC LIMIT :limit")


class NewDecision(NamedTuple):
    """A decision to be stored. `change`: the merge patch of the scaler's layer, None when nothing is written."""

    job: str
    at: datetime
    symptom: str
    action: str
    inputs: Mapping[str, Any]
    change: Mapping[str, Any] | None
    outcome: str


class DecisionRow(NamedTuple):
    """A stored decision."""

    id: int
    job: str
    at: datetime
    symptom: str
    action: str
    inputs: Mapping[str, Any]
    change: Mapping[str, Any] | None
    outcome: str
    leader_epoch: int


def insert_decisions(connection: Connection, decisions: Sequence[NewDecision], leader_epoch: int) -> list[int]:
    """Stores decisions in one statement; their ids in the same order. Raises Fenced when a newer scaler leads."""
    leases.check_epoch(connection, AUTO_SCALER, leader_epoch)
    if not decisions:
        return []
    rows = [{"position": position, **decision._asdict()} for position, decision in enumerate(decisions)]
    parameters = {"rows": orjson.dumps(rows).decode(), "leader_epoch": leader_epoch}
    # The ids come from one sequence in the order of the rows, but RETURNING promises no order.
    return sorted(connection.execute(_INSERT, parameters).scalars())


def settle_decision(connection: Connection, decision_id: int, outcome: str) -> None:
    """Notes what became of a pending decision. Not fenced: it tells of a thing that was done."""
    connection.execute(_SETTLE, {"id": decision_id, "outcome": outcome, "pending": PENDING})


def read_decisions(connection: Connection, job: str, *, limit: int = 100) -> list[DecisionRow]:
    """The newest decisions about a job, newest first."""
    rows = connection.execute(_READ, {"job": job, "limit": limit}).mappings()
    return [DecisionRow(**row) for row in rows]
