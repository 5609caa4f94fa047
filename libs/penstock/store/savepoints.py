"""Savepoints: the Job Service asks for them and for their end, the State Syncer has that done.

asked      to be taken; with `container`, by that one
ready      it is there and was verified
failed     it is not there, `detail` says why
deleting   its files go, then this row does
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, insert, select, text, update
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


class Running(NamedTuple):
    """What a job runs. `started`: false as long as it can have no checkpoint."""

    config: Mapping[str, Any]
    revision: int
    generation: int
    started: bool


# ---- for the Job Service


def ask(connection: Connection, *, job: str, name: str, author: str, reason: str) -> SavepointRow:
    """A new savepoint. Raises Conflict when the job has one of this name."""
    row = {"job": job, "name": name, "author": author, "reason": reason}
    try:
        with connection.begin_nested():
            found = connection.execute(insert(savepoints).values(row).returning(savepoints)).one()
    except IntegrityError as error:
        raise Conflict(f"{job} has a savepoint {name} already", field="name", rule="unique") from error
    notify(connection, CHANGED_EXPECTED)
    return _row(found)


def page(connection: Connection, job: str, *, limit: int, before: int | None = None) -> list[SavepointRow]:
    """Savepoints of a job, newest first."""
    statement = select(savepoints).where(savepoints.c.job == job).order_by(savepoints.c.number.desc()).limit(limit)
    if before is not None:
        statement = statement.where(savepoints.c.number < before)
    return [_row(found) for found in connection.execute(statement)]


def read(connection: Connection, job: str, name: str, *, lock: bool = False) -> SavepointRow | None:
    """One savepoint, locked until the transaction ends if asked; None when there is none."""
    statement = select(savepoints).where(savepoints.c.job == job, savepoints.c.name == name)
    if lock:
        statement = statement.with_for_update()
    found = connection.execute(statement).one_or_none()
    return None if found is None else _row(found)


def ask_to_delete(connection: Connection, number: int) -> None:
    """The savepoint is to go; also one that is being taken."""
    fresh = {"state": DELETING, "detail": "", "container": None, "attempts": 0}
    connection.execute(update(savepoints).where(savepoints.c.number == number).values(fresh))
    notify(connection, CHANGED_EXPECTED)


# ---- for the State Syncer


def read_open(connection: Connection) -> list[SavepointRow]:
    """Those that are to be taken or to go, the oldest first."""
    statement = select(savepoints).where(savepoints.c.state.in_((ASKED, DELETING))).order_by(savepoints.c.number)
    return [_row(found) for found in connection.execute(statement)]


def read_running(connection: Connection, jobs: Sequence[str]) -> dict[str, Running]:
    """What these jobs run."""
    statement = text("SELECT job, config, revision, generation, started FROM running WHERE job = ANY(:jobs)")
    found = connection.execute(statement, {"jobs": list(jobs)})
    return {row.job: Running(row.config, row.revision, row.generation, row.started) for row in found}


def read_ready(connection: Connection, jobs: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """The names of savepoints that are ready, by job and generation, newest first."""
    statement = text(
        "SELECT job, generation, name FROM savepoints WHERE state = 'ready' AND job = ANY(:jobs) ORDER BY number DESC"
    )
    names: dict[tuple[str, int], list[str]] = {}
    for row in connection.execute(statement, {"jobs": list(jobs)}):
        names.setdefault((row.job, row.generation), []).append(row.name)
    return names


def bind(connection: Connection, row: SavepointRow, container: str, running: Running | None) -> None:
    """`container` is to be asked next; of the first time `running` is what it copies."""
    fresh: dict[str, Any] = {"container": container, "attempts": row.attempts + 1}
    if running is not None:
        fresh |= {"config": running.config, "revision": running.revision, "generation": running.generation}
    _update(connection, row, fresh)


def taken(connection: Connection, row: SavepointRow, tasks: Sequence[Mapping[str, Any]], size: int) -> None:
    """It is ready."""
    _finish(connection, row, {"state": READY, "tasks": list(tasks), "bytes": size, "detail": ""})


def failed(connection: Connection, row: SavepointRow, why: str) -> None:
    """It cannot be taken."""
    _finish(connection, row, {"state": FAILED, "detail": why})


def stalled(connection: Connection, row: SavepointRow, why: str) -> None:
    """It cannot go on now; another container is asked later."""
    _update(connection, row, {"container": None, "detail": why})


def removed(connection: Connection, row: SavepointRow) -> None:
    """Its files are gone."""
    connection.execute(delete(savepoints).where(savepoints.c.number == row.number, savepoints.c.state == DELETING))


_EXPIRE = text(
    """
    UPDATE savepoints SET state = 'deleting', container = NULL, attempts = 0, detail = 'kept long enough'
    WHERE number IN (
        SELECT number FROM (
            SELECT number, created_at, state, rank() OVER (PARTITION BY job, state ORDER BY number DESC) AS place
            FROM savepoints WHERE state IN ('ready', 'failed')) AS kept
        WHERE NOT EXISTS (SELECT FROM restores WHERE restores.savepoint = kept.number) AND (place > :count
            OR (CAST(:seconds AS double precision) IS NOT NULL
                AND created_at < now() - make_interval(secs => CAST(:seconds AS double precision)))))
    """
)


def expire(connection: Connection, *, count: int, seconds: float | None) -> int:
    """Those go that are older than the newest `count` of their job, or than `seconds` if that is given; how many."""
    return connection.execute(_EXPIRE, {"count": count, "seconds": seconds}).rowcount


def _finish(connection: Connection, row: SavepointRow, fresh: Mapping[str, Any]) -> None:
    statement = update(savepoints).where(savepoints.c.number == row.number, savepoints.c.state == row.state)
    connection.execute(statement.values(finished_at=text("now()"), **fresh))


def _update(connection: Connection, row: SavepointRow, fresh: Mapping[str, Any]) -> None:
    """Nothing is done to a row that has another state by now."""
    statement = update(savepoints).where(savepoints.c.number == row.number, savepoints.c.state == row.state)
    connection.execute(statement.values(fresh))


def _row(found: Row[Any]) -> SavepointRow:
    return SavepointRow(**found._mapping)
