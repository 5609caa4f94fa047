"""The rows of savepoints, and how the Job Service asks for them and for their end; the State Syncer has that done.

asked      to be taken; with `container`, by that one
ready      it is there and was verified
failed     it is not there, `detail` says why
deleting   its files go, then this row does
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from penstock.control.errors import Conflict
from penstock.store.engine import CHANGED_EXPECTED, notify
from penstock.store.tables import savepoints

ASKED, READY, FAILED, DELETING = "asked", "ready", "failed", "deleting"


@dataclass(frozen=True, slots=True)
class SavepointRow:
    """One savepoint. What is None was not known yet; `tasks` are `SavedTask` as JSON."""

    number: int
    job: str
    name: str
    state: str
    detail: str
    generation: int | None
    revision: int | None
    config: Mapping[str, Any] | None
    container: str | None
    attempts: int
    tasks: Sequence[Mapping[str, Any]] | None
    bytes: int | None
    author: str
    reason: str
    created_at: datetime
    finished_at: datetime | None


def ask(connection: Connection, *, job: str, name: str, author: str, reason: str) -> SavepointRow:
    """A new savepoint. Raises Conflict when the job has one of this name."""
    row = {"job": job, "name": name, "author": author, "reason": reason}
    try:
        with connection.begin_nested():
            found = connection.execute(insert(savepoints).values(row).returning(savepoints)).one()
    except IntegrityError as error:
        raise Conflict(f"{job} has a savepoint {name} already", field="name", rule="unique") from error
    notify(connection, CHANGED_EXPECTED)
    return row_of(found)


def page(connection: Connection, job: str, *, limit: int, before: int | None = None) -> list[SavepointRow]:
    """Savepoints of a job, newest first."""
    statement = select(savepoints).where(savepoints.c.job == job).order_by(savepoints.c.number.desc()).limit(limit)
    if before is not None:
        statement = statement.where(savepoints.c.number < before)
    return [row_of(found) for found in connection.execute(statement)]


def read(connection: Connection, job: str, name: str, *, lock: bool = False) -> SavepointRow | None:
    """One savepoint, locked until the transaction ends if asked; None when there is none."""
    statement = select(savepoints).where(savepoints.c.job == job, savepoints.c.name == name)
    if lock:
        statement = statement.with_for_update()
    found = connection.execute(statement).one_or_none()
    return None if found is None else row_of(found)


def ask_to_delete(connection: Connection, number: int) -> None:
    """The savepoint is to go; also one that is being taken."""
    fresh = {"state": DELETING, "detail": "", "container": None, "attempts": 0}
    connection.execute(update(savepoints).where(savepoints.c.number == number).values(fresh))
    notify(connection, CHANGED_EXPECTED)


def row_of(found: Row[Any]) -> SavepointRow:
    """A row of the table."""
    return SavepointRow(**found._mapping)
