"""Scaling decisions with everything they were made from. Writes are fenced by the Auto Scaler's leader epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.store import leases
from penstock.store.json import as_json

AUTO_SCALER = "auto_scaler"
# The outcome of a decision that is being carried out. It stays if the process ends meanwhile.
PENDING = "pending"
# The outcome of one that nobody answered: whether it was carried out is not known.
UNAVAILABLE = "job service unavailable"

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
_RECORD_OUTCOME = text("UPDATE decisions SET outcome = :outcome WHERE id = :id AND outcome = :pending")


class NewDecision(NamedTuple):
    """A decision to be stored. `change`: the merge patch of the scaler's layer, None when nothing is written."""

    job: str
    at: datetime
    symptom: str
    action: str
    inputs: Mapping[str, Any]
    change: Mapping[str, Any] | None
    outcome: str


def insert_decisions(connection: Connection, decisions: Sequence[NewDecision], leader_epoch: int) -> list[int]:
    """Stores decisions in one statement; their ids in the same order. Raises Fenced when a newer scaler leads."""
    leases.check_epoch(connection, AUTO_SCALER, leader_epoch)
    if not decisions:
        return []
    rows = [{"position": position, **decision._asdict()} for position, decision in enumerate(decisions)]
    parameters = {"rows": as_json(rows), "leader_epoch": leader_epoch}
    # The ids come from one sequence in the order of the rows, but RETURNING promises no order.
    return sorted(connection.execute(_INSERT, parameters).scalars())


def record_outcome(connection: Connection, decision_id: int, outcome: str) -> None:
    """Stores the outcome of a pending decision. Not fenced: what was done is done."""
    connection.execute(_RECORD_OUTCOME, {"id": decision_id, "outcome": outcome, "pending": PENDING})
