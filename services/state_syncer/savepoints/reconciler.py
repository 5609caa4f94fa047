"""A round of savepoints: read, decide, write, then ask containers. Beside the rounds of jobs, under the same lease."""

from __future__ import annotations

from penstock.control.logs import logger
from penstock.store.savepoints import SavepointRow
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.host_tasks.next_attempt import Ask, Candidates, GiveUp
from services.state_syncer.host_tasks.outcomes import Attempt
from services.state_syncer.savepoints.decide import decide, in_turn, key_of, request_of
from services.state_syncer.savepoints.store import Decided, OpenSavepoints, SavepointStore

log = logger(__name__)


class SavepointReconciler:
    """Has savepoints taken and removed. `keep_count`, `keep_seconds`: how many of a job are kept, and for how long."""

    def __init__(
        self,
        store: SavepointStore,
        host_tasks: WantedHostTasks,
        *,
        keep_count: int,
        keep_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._host_tasks = host_tasks
        self._keep_count = keep_count
        self._keep_seconds = keep_seconds

    def round(self, leader_epoch: int) -> bool:
        """Brings every open savepoint as far as it can go now; whether some are open. Raises Fenced, Unavailable."""
        expired = self._store.expire(leader_epoch, count=self._keep_count, seconds=self._keep_seconds)
        if expired:
            log.info("savepoints expire", savepoints=expired)
        found = self._store.read()
        candidates = Candidates(found.containers, map(key_of, found.rows))
        attempts: list[Attempt] = []
        decided: list[Decided] = []
        for row in in_turn(found.rows):
            running = found.running.get(row.job)
            has_checkpoint = running is not None and running.started
            outcome = self._host_tasks.outcome(key_of(row))
            decision = decide(row, candidates, outcome, has_checkpoint=has_checkpoint)
            if isinstance(decision, Ask):
                attempt = _attempt(row, decision.container, found)
                if isinstance(attempt, GiveUp):
                    decision = attempt
                else:
                    attempts.append(attempt)
            decided.append(Decided(row, decision, running))
        if decided:
            self._store.write(decided, leader_epoch)
        self._host_tasks.want(attempts, leader_epoch)
        return bool(decided)


def _attempt(row: SavepointRow, container: str, found: OpenSavepoints) -> Attempt | GiveUp:
    """What is to be asked, or why it cannot be."""
    names = found.earlier.get((row.job, row.generation or 0), ())
    try:
        request = request_of(row, names, found.state_bytes.get(row.job))
    except ValueError as error:
        return GiveUp(f"its configuration cannot be read: {error}")
    return Attempt(key_of(row), found.containers[container].url, request)
