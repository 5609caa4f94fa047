"""Port to the rows of savepoints, for the rounds of `savepoint_keeper`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import Connection, Engine

from penstock.control.logs import logger
from penstock.store import leases, savepoints
from penstock.store.engine import snapshot, transaction
from penstock.store.plans import LiveContainer, read_live_containers
from penstock.store.running import STATE_SYNCER
from penstock.store.savepoints import Running, SavepointRow
from services.state_syncer.savepoints import Again, Bind, Broken, Decision, Gone, Look, Nobody, Ready

log = logger(__name__)


class OpenSavepoints(NamedTuple):
    """Savepoints that are to be taken or to go, the oldest first, and what is decided from. `earlier`: the names of
    those that are ready, by job and generation, newest first."""

    rows: Sequence[SavepointRow]
    running: Mapping[str, Running]
    earlier: Mapping[tuple[str, int], Sequence[str]]
    containers: Mapping[str, LiveContainer]


class Decided(NamedTuple):
    """What is to be done about a savepoint; `running`: what its job ran when that was decided."""

    row: SavepointRow
    decision: Decision
    running: Running | None


class SavepointStore(Protocol):
    """What the keeper needs of the job store."""

    def expire(self, leader_epoch: int, *, count: int, seconds: float | None) -> int:
        """Those go that are not kept; how many. Raises Fenced, Unavailable."""
        ...

    def read(self) -> OpenSavepoints:
        """All that a round looks at, of one moment. Raises Unavailable."""
        ...

    def write(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        """Writes all of it or nothing. Raises Fenced, Unavailable."""
        ...


class PostgresSavepointStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def expire(self, leader_epoch: int, *, count: int, seconds: float | None) -> int:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            return savepoints.expire(connection, count=count, seconds=seconds)

    def read(self) -> OpenSavepoints:
        """See the port."""
        with snapshot(self._engine) as connection:
            rows = savepoints.read_open(connection)
            if not rows:
                return OpenSavepoints((), {}, {}, {})
            jobs = sorted({row.job for row in rows})
            running = savepoints.read_running(connection, jobs)
            earlier = savepoints.read_ready(connection, jobs)
            return OpenSavepoints(rows, running, earlier, read_live_containers(connection))

    def write(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for each in decided:
                _write(connection, *each)


def _write(connection: Connection, row: SavepointRow, decision: Decision, running: Running | None) -> None:
    match decision:
        case Bind(container, first):
            savepoints.bind(connection, row, container, running if first else None)
        case Ready(report):
            log.info("savepoint ready", job=row.job, savepoint=row.name, bytes=report.bytes)
            tasks = [task.model_dump(mode="json") for task in report.tasks]
            savepoints.taken(connection, row, tasks, report.bytes)
        case Broken(why):
            log.warning("savepoint failed", job=row.job, savepoint=row.name, error=why)
            savepoints.failed(connection, row, why)
        case Again(why):
            log.warning("savepoint stalls", job=row.job, savepoint=row.name, error=why)
            savepoints.stalled(connection, row, why)
        case Gone():
            log.info("savepoint removed", job=row.job, savepoint=row.name)
            savepoints.removed(connection, row)
        case Look() | Nobody():
            pass
