"""A round of old generations: note, read, decide, write, then ask containers. Beside the rounds of jobs, under the same
lease."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine

from penstock.control.logs import logger
from penstock.control.period import Period
from penstock.store import leases
from penstock.store.engine import snapshot, transaction
from penstock.store.running import STATE_SYNCER
from services.state_syncer.generations import store
from services.state_syncer.generations.rules import Keep, Retention, UnusedGeneration, decide, key_of, request_of
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.host_tasks.next_attempt import Ask, Assign, AttemptDecision, Candidates, Retry
from services.state_syncer.host_tasks.outcomes import Attempt, Done
from services.state_syncer.metrics import COLLECTED
from services.state_syncer.store.plans import read_live_containers

log = logger(__name__)


class GenerationGc:
    """Has old generations deleted. Notes which are used no more every `look_seconds` of `monotonic`; reads and decides
    then, and in every round while anything is being deleted.
    """

    def __init__(
        self,
        engine: Engine,
        host_tasks: WantedHostTasks,
        monotonic: Callable[[], float],
        retention: Retention,
        *,
        look_seconds: float,
    ) -> None:
        self._engine = engine
        self._host_tasks = host_tasks
        self._retention = retention
        self._monotonic = monotonic
        self._look = Period(look_seconds)
        self._busy = False

    def round(self, leader_epoch: int) -> bool:
        """Notes what is used no more, and brings every deletion as far as it can go now; whether any goes on. Raises
        Fenced, Unavailable."""
        is_due = self._look.is_due(self._monotonic())
        if not is_due and not self._busy:
            return False
        if is_due:
            with transaction(self._engine) as connection:
                leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
                store.note(connection)
            self._look.done()
        with snapshot(self._engine) as connection:
            found = store.read_unused(connection, kept=self._retention.count, seconds=self._retention.seconds)
            containers = read_live_containers(connection) if found else {}
        # Those that are under way come first, and count.
        candidates, outcome = Candidates(containers, map(key_of, found)), self._host_tasks.outcome
        decided = [(old, decide(old, self._retention, candidates, outcome(key_of(old)))) for old in found]
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for old, decision in decided:
                _write(connection, old, decision)
        asked = [(old, decision.container) for old, decision in decided if isinstance(decision, Ask)]
        attempts = [Attempt(key_of(old), containers[name].url, request_of(old)) for old, name in asked]
        self._host_tasks.want(attempts, leader_epoch)
        self._busy = any(isinstance(decision, Assign | Ask | Done) for _, decision in decided)
        return self._busy


def _write(connection: Connection, old: UnusedGeneration, decision: AttemptDecision | Keep) -> None:
    match decision:
        case Assign(container):
            store.bind(connection, old.job, old.generation, container)
        case Done():
            log.info("generation collected", job=old.job, generation=old.generation, container=old.container)
            COLLECTED.inc()
            store.collected(connection, old.job, old.generation)
        case Retry(why, after_seconds=pause):
            log.warning("generation stays", job=old.job, generation=old.generation, error=why)
            store.release(connection, old.job, old.generation, why=why, seconds=pause)
        case Keep() if old.container is not None:
            store.release(connection, old.job, old.generation, why="it is needed", seconds=0.0)
