"""A round of savepoints: read, decide, write, then ask containers. Beside the rounds of jobs, under the same lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from penstock.control.logs import logger
from penstock.store.plans import LiveContainer
from penstock.store.savepoints import Running, SavepointRow
from services.state_syncer.asks import Ask
from services.state_syncer.executor import Asker
from services.state_syncer.loop import wait_for_the_period
from services.state_syncer.progress import Helper
from services.state_syncer.savepoint_store import Decided, OpenSavepoints, SavepointStore
from services.state_syncer.savepoints import Bind, Broken, Decision, Look, decide, key_of, request_of

log = logger(__name__)


class SavepointKeeper:
    """Has savepoints taken and removed, by an asker of its own. `keep_count`, `keep_seconds`: how many of a job are
    kept, and for how long."""

    def __init__(
        self,
        store: SavepointStore,
        executor: Asker,
        *,
        await_seconds: float,
        keep_count: int,
        keep_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._executor = executor
        self._await_seconds = await_seconds
        self._keep_count = keep_count
        self._keep_seconds = keep_seconds
        self.wake_in: Callable[[float], None] = wait_for_the_period

    def round(self, leader_epoch: int) -> None:
        """Brings every open savepoint as far as it can go now. Raises Fenced, Unavailable."""
        expired = self._store.expire(leader_epoch, count=self._keep_count, seconds=self._keep_seconds)
        if expired:
            log.info("savepoints expire", savepoints=expired)
        found = self._store.read()
        load = Counter(row.container for row in found.rows if row.container is not None)
        asks: list[Ask] = []
        decided: list[Decided] = []
        for row in found.rows:
            running = found.running.get(row.job)
            decision = self._decide(row, running, found.containers, load)
            if isinstance(decision, Look):
                decision = _look(row, decision, found, asks)
            decided.append(Decided(row, decision, running))
        if decided:
            self._store.write(decided, leader_epoch)
        self._executor.ask(asks)
        if decided:
            self.wake_in(self._await_seconds)

    def _decide(
        self, row: SavepointRow, running: Running | None, containers: Mapping[str, LiveContainer], load: Counter[str]
    ) -> Decision:
        helpers = [Helper(name, place.offers, load[name]) for name, place in containers.items()]
        decision = decide(row, running, helpers, self._executor.outcome(key_of(row)))
        if isinstance(decision, Bind):
            load[decision.container] += 1
        return decision


def _look(row: SavepointRow, decision: Look, found: OpenSavepoints, asks: list[Ask]) -> Look | Broken:
    """Adds what is to be asked."""
    names = found.earlier.get((row.job, row.generation or 0), ())
    try:
        asks.append(Ask(key_of(row), found.containers[decision.container].url, request_of(row, names)))
    except ValueError as error:
        return Broken(f"its configuration cannot be read: {error}")
    return decision
