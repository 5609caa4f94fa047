"""A round of savepoints: read, decide, write, then ask containers. Beside the rounds of jobs, under the same lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, Engine

from penstock.control.logs import logger
from penstock.store import leases, savepoints
from penstock.store.engine import snapshot, transaction
from penstock.store.plans import LiveContainer, read_live_containers
from penstock.store.running import STATE_SYNCER
from penstock.store.savepoints import Running, SavepointRow
from services.state_syncer.asks import Ask
from services.state_syncer.executor import Asker
from services.state_syncer.loop import wait_for_the_period
from services.state_syncer.progress import Helper
from services.state_syncer.savepoints import (
    Again,
    Bind,
    Broken,
    Decision,
    Gone,
    Look,
    Nobody,
    Ready,
    decide,
    key_of,
    request_of,
)

log = logger(__name__)


class SavepointKeeper:
    """Has savepoints taken and removed, by an asker of its own. `keep_count`, `keep_seconds`: how many of a job are
    kept, and for how long."""

    def __init__(
        self,
        engine: Engine,
        executor: Asker,
        *,
        await_seconds: float,
        keep_count: int,
        keep_seconds: float | None = None,
    ) -> None:
        self._engine = engine
        self._executor = executor
        self._await_seconds = await_seconds
        self._keep_count = keep_count
        self._keep_seconds = keep_seconds
        self.wake_in: Callable[[float], None] = wait_for_the_period

    def round(self, leader_epoch: int) -> None:
        """Brings every open savepoint as far as it can go now. Raises Fenced, Unavailable."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            expired = savepoints.expire(connection, count=self._keep_count, seconds=self._keep_seconds)
            if expired:
                log.info("savepoints expire", savepoints=expired)
        with snapshot(self._engine) as connection:
            rows = savepoints.read_open(connection)
            jobs = sorted({row.job for row in rows})
            running = savepoints.read_running(connection, jobs) if rows else {}
            earlier = savepoints.read_ready(connection, jobs) if rows else {}
            containers = read_live_containers(connection) if rows else {}
        load = Counter(row.container for row in rows if row.container is not None)
        asks: list[Ask] = []
        decided: list[tuple[SavepointRow, Decision]] = []
        for row in rows:
            decision = self._decide(row, running.get(row.job), containers, load)
            if isinstance(decision, Look):
                decision = _look(row, decision, containers, earlier, asks)
            decided.append((row, decision))
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for row, decision in decided:
                _write(connection, row, decision, running.get(row.job))
        self._executor.ask(asks)
        if rows:
            self.wake_in(self._await_seconds)

    def _decide(
        self, row: SavepointRow, running: Running | None, containers: Mapping[str, LiveContainer], load: Counter[str]
    ) -> Decision:
        helpers = [Helper(name, place.region, load[name]) for name, place in containers.items()]
        decision = decide(row, running, helpers, self._executor.outcome(key_of(row)))
        if isinstance(decision, Bind):
            load[decision.container] += 1
        return decision


def _look(
    row: SavepointRow,
    decision: Look,
    containers: Mapping[str, LiveContainer],
    earlier: Mapping[tuple[str, int], Sequence[str]],
    asks: list[Ask],
) -> Look | Broken:
    """Adds what is to be asked."""
    names = earlier.get((row.job, row.generation or 0), ())
    try:
        asks.append(Ask(key_of(row), containers[decision.container].url, request_of(row, names)))
    except ValueError as error:
        return Broken(f"its configuration cannot be read: {error}")
    return decision


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
