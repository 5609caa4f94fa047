"""Restores that are asked for: at most one a job, the newest counts. The State Syncer reads and ends them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from penstock.store.savepoints import SavepointRow

_FORGET = text("DELETE FROM restores WHERE job = :job")
_INSERT = text(
    """
    INSERT INTO restores (job, savepoint, savepoint_job, savepoint_name, generation, config)
    SELECT :job, number, job, name, generation, config FROM savepoints WHERE number = :number
    """
)
_USERS = text("SELECT job FROM restores WHERE savepoint = :number ORDER BY job")


def ask(connection: Connection, job: str, savepoint: SavepointRow) -> None:
    """The job, whose row is locked, is to be restored from this savepoint, and from no other asked for before."""
    connection.execute(_FORGET, {"job": job})
    connection.execute(_INSERT, {"job": job, "number": savepoint.number})


def users(connection: Connection, savepoint: int) -> Sequence[str]:
    """The jobs that are to be restored from a savepoint."""
    return connection.execute(_USERS, {"number": savepoint}).scalars().all()
