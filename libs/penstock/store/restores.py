"""Restores that were asked for and are not done yet: at most one a job, the newest counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, text

from penstock.store.savepoints import SavepointRow

_FORGET = text("DELETE FROM restores WHERE job = :job")
_INSERT = text(
    """
    INSERT INTO restores (job, savepoint, savepoint_job, savepoint_name, generation, config)
    SELECT :job, number, job, name, generation, config FROM savepoints WHERE number = :number
    """
)
_READ = text("SELECT job, number, savepoint_job, savepoint_name, generation, config FROM restores")
_USERS = text("SELECT job FROM restores WHERE savepoint = :number ORDER BY job")
_DONE = text(
    """
    DELETE FROM restores USING json_to_recordset(CAST(:rows AS json)) AS done(job text, number bigint)
    WHERE restores.job = done.job AND restores.number = done.number
    """
)


class RestoreRow(NamedTuple):
    """A restore of `job` from a savepoint, which is of `generation` with `config`."""

    job: str
    number: int
    savepoint_job: str
    savepoint_name: str
    generation: int
    config: Mapping[str, Any]


def ask(connection: Connection, job: str, savepoint: SavepointRow) -> None:
    """The job, whose row is locked, is to be restored from this savepoint, and from no other asked for before."""
    connection.execute(_FORGET, {"job": job})
    connection.execute(_INSERT, {"job": job, "number": savepoint.number})


def users(connection: Connection, savepoint: int) -> Sequence[str]:
    """The jobs that are to be restored from a savepoint."""
    return connection.execute(_USERS, {"number": savepoint}).scalars().all()


def read(connection: Connection) -> dict[str, RestoreRow]:
    """All restores that are to be done, by job."""
    return {row.job: RestoreRow(*row) for row in connection.execute(_READ)}


def done(connection: Connection, restored: Mapping[str, int]) -> None:
    """These jobs were restored, by the numbers of their restores; newer ones stay."""
    if restored:
        rows = [{"job": job, "number": number} for job, number in restored.items()]
        connection.execute(_DONE, {"rows": orjson.dumps(rows).decode()})
