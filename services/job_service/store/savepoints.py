"""What the Job Service asks of savepoints: that one is taken, deleted, or a job restored from it. The State Syncer has
that done. A job has one restore at most: the newest counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.store.engine import CHANGED_EXPECTED, notify
from penstock.store.json import as_jsonb
from penstock.store.rows import columns, read_first, read_page
from penstock.store.savepoints import SavepointRow
from penstock.tasks.host_task import SEAL

_ASK = text(
    f"""
    INSERT INTO savepoints (job, name, author, reason, checkpoint, generation, revision, config)
    VALUES (:job, :name, :author, :reason, :checkpoint, :generation, :revision, :config)
    ON CONFLICT (job, name) DO NOTHING RETURNING {columns(SavepointRow)}
    """
)
_READ = f"SELECT {columns(SavepointRow)} FROM savepoints WHERE job = :job AND name = :name"
# Also one that is being taken.
_DELETE = text(
    """
    UPDATE savepoints SET state = 'deleting', detail = '', container = NULL, attempts = 0, next_attempt_at = NULL
    WHERE number = :number
    """
)
_USERS = text("SELECT job FROM restores WHERE savepoint = :number ORDER BY job")
_FORGET_RESTORE = text("DELETE FROM restores WHERE job = :job RETURNING number")
_IS_SEALING = text(
    """
    SELECT EXISTS (SELECT FROM sync_state
        WHERE job = :job AND plan->>'step' = :seal AND (plan->'restore'->>'number')::bigint = :number)
    """
)
_RESTORE = text(
    """
    INSERT INTO restores (job, savepoint, savepoint_job, savepoint_name, generation, config)
    SELECT :job, number, job, name, generation, config FROM savepoints WHERE number = :number
    """
)


class Imported(NamedTuple):
    """A checkpoint of another application, and what it is taken for: that of a generation of this configuration."""

    checkpoint: str
    generation: int
    revision: int
    config: Mapping[str, Any]


def ask(
    connection: Connection, *, job: str, name: str, author: str, reason: str, imported: Imported | None = None
) -> SavepointRow:
    """A new savepoint, of what the job runs or of what is imported. Raises Conflict when the job has one of this
    name."""
    row: dict[str, Any] = {"job": job, "name": name, "author": author, "reason": reason}
    row |= dict.fromkeys(Imported._fields) if imported is None else imported._asdict()
    row["config"] = None if imported is None else as_jsonb(imported.config)
    asked = read_first(connection, SavepointRow, _ASK, row)
    if asked is None:
        raise Conflict(f"{job} has a savepoint {name} already", field="name", rule="unique")
    notify(connection, CHANGED_EXPECTED)
    return asked


def page(connection: Connection, job: str, *, limit: int, before: int | None = None) -> list[SavepointRow]:
    """Savepoints of a job, newest first."""
    return read_page(connection, SavepointRow, "savepoints", {"job": job}, key="number", limit=limit, below=before)


def read(connection: Connection, job: str, name: str, *, lock: bool = False) -> SavepointRow | None:
    """One savepoint, locked until the transaction ends if asked; None when there is none."""
    statement = text(f"{_READ} FOR UPDATE" if lock else _READ)
    return read_first(connection, SavepointRow, statement, {"job": job, "name": name})


def ask_to_delete(connection: Connection, number: int) -> None:
    """The savepoint is to go."""
    connection.execute(_DELETE, {"number": number})
    notify(connection, CHANGED_EXPECTED)


def restoring(connection: Connection, savepoint: int) -> list[str]:
    """The jobs that are to be restored from a savepoint."""
    return list(connection.execute(_USERS, {"number": savepoint}).scalars())


def cancel_restore(connection: Connection, job: str) -> int | None:
    """Takes back what was asked for; its number, None when there was nothing. Waits while the State Syncer has it
    locked."""
    return connection.execute(_FORGET_RESTORE, {"job": job}).scalar()


def is_past_return(connection: Connection, job: str, restore: int) -> bool:
    """Whether the old generation of a job is given up for a restore."""
    return bool(connection.execute(_IS_SEALING, {"job": job, "seal": SEAL, "number": restore}).scalar_one())


def ask_to_restore(connection: Connection, job: str, savepoint: SavepointRow) -> None:
    """The job, whose row is locked, is to be restored from this savepoint, and from no other asked for before."""
    connection.execute(_FORGET_RESTORE, {"job": job})
    connection.execute(_RESTORE, {"job": job, "number": savepoint.number})
