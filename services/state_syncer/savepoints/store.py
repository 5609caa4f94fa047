"""The rows of savepoints that are to be taken or removed, for the reconciler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.control.logs import logger
from penstock.control.texts import clean
from penstock.store import leases
from penstock.store.engine import snapshot
from penstock.store.json import as_jsonb
from penstock.store.rows import columns, read_all
from penstock.store.running import STATE_SYNCER
from penstock.store.savepoints import ASKED, DELETING, FAILED, READY, SavepointRow
from penstock.tasks.savepoint import SavepointReport
from services.state_syncer.host_tasks.next_attempt import Assign, AttemptDecision, GiveUp, LiveContainer, Retry
from services.state_syncer.host_tasks.outcomes import Done
from services.state_syncer.host_tasks.store import read_state_bytes
from services.state_syncer.store.plans import read_live_containers

log = logger(__name__)

# The jobs of the next savepoints by job, by an index: how many of a cell there are does not matter.
PAGE = text(
    """
    SELECT job, count(*) AS savepoints FROM (
        SELECT job FROM savepoints WHERE state IN ('ready', 'failed') AND job > :after ORDER BY job LIMIT :most) AS page
    GROUP BY job ORDER BY job
    """
)
EXPIRE = text(
    """
    UPDATE savepoints SET
        state = 'deleting', container = NULL, attempts = 0, next_attempt_at = NULL, detail = 'kept long enough'
    WHERE number IN (
        SELECT number FROM (
            SELECT number, created_at, state, rank() OVER (PARTITION BY job, state ORDER BY number DESC) AS place
            FROM savepoints WHERE job = ANY(:jobs) AND state IN ('ready', 'failed')) AS kept
        WHERE NOT EXISTS (SELECT FROM restores WHERE restores.savepoint = kept.number) AND (place > :count
            OR (CAST(:seconds AS double precision) IS NOT NULL
                AND created_at < now() - make_interval(secs => CAST(:seconds AS double precision)))))
    """
)
MOST_RANKED = 1_000
"""Savepoints in one look. When a cell has more, the next looks go on with the jobs after them."""
_OPEN = text(
    f"""
    SELECT {columns(SavepointRow)} FROM savepoints
    WHERE state IN ('{ASKED}', '{DELETING}') AND (next_attempt_at IS NULL OR next_attempt_at <= now())
    ORDER BY number
    """
)
_RUNNING = text("SELECT job, config, revision, generation, started FROM running WHERE job = ANY(:jobs)")
_READY = text(
    """
    SELECT job, generation, name FROM savepoints WHERE state = 'ready' AND checkpoint IS NULL AND job = ANY(:jobs)
    ORDER BY number DESC
    """
)
_REMOVED = text("DELETE FROM savepoints WHERE number = :number AND state = 'deleting'")


class Running(NamedTuple):
    """What a job runs. `started`: false as long as it can have no checkpoint."""

    config: Mapping[str, Any]
    revision: int
    generation: int
    started: bool


class OpenSavepoints(NamedTuple):
    """Savepoints that are to be taken or to go, the oldest first, and what is decided from; those that pause after a
    failure are not read. `earlier`: the names of
    those that are ready, by job and generation, newest first. `state_bytes`: the reported size of the jobs' state,
    where it is known."""

    rows: Sequence[SavepointRow]
    running: Mapping[str, Running]
    earlier: Mapping[tuple[str, int], Sequence[str]]
    containers: Mapping[str, LiveContainer]
    state_bytes: Mapping[str, int] = {}


class Decided(NamedTuple):
    """What is to be done about a savepoint; `running`: what its job ran when that was decided."""

    row: SavepointRow
    decision: AttemptDecision
    running: Running | None


class SavepointStore:
    """What the reconciler asks of the job store."""

    def __init__(self, engine: Engine, most_ranked: int = MOST_RANKED) -> None:
        self._engine = engine
        self._most_ranked = most_ranked
        self._last = ""

    def expire(self, leader_epoch: int, *, count: int, seconds: float | None) -> int:
        """Those go that are older than the newest `count` of their job, or than `seconds` if that is given; how many.

        Looks at the next jobs by name, and after the last one begins again. Raises Fenced, Unavailable.
        """
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            values = {"after": self._last, "most": self._most_ranked}
            page = connection.execute(PAGE, values).all()
            jobs = [row.job for row in page]
            self._last = jobs[-1] if sum(row.savepoints for row in page) == self._most_ranked else ""
            if not jobs:
                return 0
            return connection.execute(EXPIRE, {"jobs": jobs, "count": count, "seconds": seconds}).rowcount

    def read(self) -> OpenSavepoints:
        """All that a round reads, of one moment. Raises Unavailable."""
        with snapshot(self._engine) as connection:
            rows = read_all(connection, SavepointRow, _OPEN)
            if not rows:
                return OpenSavepoints((), {}, {}, {})
            jobs = sorted({row.job for row in rows})
            running = _read_running(connection, jobs)
            earlier = _read_ready(connection, jobs)
            state_bytes = read_state_bytes(connection, jobs)
            return OpenSavepoints(rows, running, earlier, read_live_containers(connection), state_bytes)

    def write(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        """Writes all of it or nothing. Raises Fenced, Unavailable."""
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            for each in decided:
                _write(connection, *each)


def _write(connection: Connection, row: SavepointRow, decision: AttemptDecision, running: Running | None) -> None:
    match decision:
        case Assign(container):
            bind(connection, row, container, running)
        case Done(SavepointReport() as report) if row.state == ASKED:
            log.info("savepoint ready", job=row.job, savepoint=row.name, bytes=report.bytes)
            taken(connection, row, [task.model_dump(mode="json") for task in report.tasks], report.bytes)
        case Done():
            log.info("savepoint removed", job=row.job, savepoint=row.name)
            removed(connection, row)
        case GiveUp(why):
            log.warning("savepoint failed", job=row.job, savepoint=row.name, error=why)
            _update(connection, row, {"state": FAILED, "detail": clean(why)}, "finished_at = now()")
        case Retry(why, after_seconds=pause):
            log.warning("savepoint stalls", job=row.job, savepoint=row.name, error=why)
            later = "next_attempt_at = now() + make_interval(secs => :pause)"
            _update(connection, row, {"container": None, "detail": clean(why)}, later, pause=pause)


def bind(connection: Connection, row: SavepointRow, container: str, running: Running | None) -> None:
    """`container` is to be asked next. What is copied is what ran when the first container was chosen."""
    fresh: dict[str, Any] = {"container": container, "attempts": row.attempts + 1}
    if row.state == ASKED and row.generation is None and running is not None:
        fresh |= {"config": as_jsonb(running.config), "revision": running.revision, "generation": running.generation}
    _update(connection, row, fresh)


def taken(connection: Connection, row: SavepointRow, tasks: Sequence[Mapping[str, Any]], size: int) -> None:
    """It is ready."""
    fresh = {"state": READY, "tasks": as_jsonb(list(tasks)), "bytes": size, "detail": ""}
    _update(connection, row, fresh, "finished_at = now()")


def removed(connection: Connection, row: SavepointRow) -> None:
    """Its files are gone."""
    connection.execute(_REMOVED, {"number": row.number})


def _update(connection: Connection, row: SavepointRow, fresh: Mapping[str, Any], *further: str, **values: Any) -> None:
    """Nothing is done to a row that has another state by now. `values`: what `further` changes name."""
    changes = ", ".join([*(f"{name} = :{name}" for name in fresh), *further])
    statement = text(f"UPDATE savepoints SET {changes} WHERE number = :number AND state = :seen")
    connection.execute(statement, {**fresh, **values, "number": row.number, "seen": row.state})


def _read_running(connection: Connection, jobs: Sequence[str]) -> dict[str, Running]:
    """What these jobs run."""
    return {job: Running(*row) for job, *row in connection.execute(_RUNNING, {"jobs": list(jobs)})}


def _read_ready(connection: Connection, jobs: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """The names of savepoints that are ready, by job and generation, newest first."""
    names: dict[tuple[str, int], list[str]] = {}
    for row in connection.execute(_READY, {"jobs": list(jobs)}):
        names.setdefault((row.job, row.generation), []).append(row.name)
    return names
