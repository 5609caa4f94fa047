"""A round of old generations: note, read, decide, write, then ask containers. Beside the rounds of jobs, under the same
lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, Engine

from penstock.control.logs import logger
from penstock.store import generations, leases
from penstock.store.engine import snapshot, transaction
from penstock.store.plans import LiveContainer, read_live_containers
from penstock.store.records import UnusedGeneration
from penstock.store.running import STATE_SYNCER
from services.state_syncer.asks import Ask
from services.state_syncer.executor import Asker
from services.state_syncer.generations import (
    Decision,
    Keep,
    Retention,
    decide,
    key_of,
    request_of,
)
from services.state_syncer.loop import wait_for_the_period
from services.state_syncer.metrics import COLLECTED
from services.state_syncer.plan import backoff_seconds
from services.state_syncer.progress import Helper
from services.state_syncer.savepoints import Again, Bind, Gone, Look, Nobody

log = logger(__name__)


class GenerationKeeper:
    """Has old generations deleted, by an asker of its own: plans never wait for it.

    It notes and looks every `look_seconds` of `monotonic`, and looks in every round while anything is being deleted.
    """

    def __init__(
        self,
        engine: Engine,
        executor: Asker,
        monotonic: Callable[[], float],
        retention: Retention,
        *,
        await_seconds: float,
        look_seconds: float,
    ) -> None:
        self._engine = engine
        self._executor = executor
        self._monotonic = monotonic
        self._retention = retention
        self._await_seconds = await_seconds
        self._look_seconds = look_seconds
        self._look_at = monotonic()
        self._busy = False
        self.wake_in: Callable[[float], None] = wait_for_the_period

    def round(self, leader_epoch: int) -> None:
        """Notes what is used no more, and brings every deletion as far as it can go now. Raises Fenced, Unavailable."""
        now = self._monotonic()
        if now < self._look_at and not self._busy:
            return
        if now >= self._look_at:
            self._look_at = now + self._look_seconds
            with transaction(self._engine) as connection:
                leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
                generations.note(connection)
        with snapshot(self._engine) as connection:
            found = generations.read_unused(connection, kept=self._retention.count, seconds=self._retention.seconds)
            containers = read_live_containers(connection) if found else {}
        decided = self._decide(found, containers)
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, STATE_SYNCER, leader_epoch)
            for old, decision in decided:
                _write(connection, old, decision)
        self._executor.ask(
            Ask(key_of(old), containers[decision.container].url, request_of(old))
            for old, decision in decided
            if isinstance(decision, Look)
        )
        self._busy = any(isinstance(decision, Bind | Look | Gone) for _, decision in decided)
        if self._busy:
            self.wake_in(self._await_seconds)

    def _decide(
        self, seen: Sequence[UnusedGeneration], containers: Mapping[str, LiveContainer]
    ) -> list[tuple[UnusedGeneration, Decision]]:
        """Those that are under way come first, and count."""
        load = Counter(old.container for old in seen if old.container is not None)
        decided: list[tuple[UnusedGeneration, Decision]] = []
        for old in seen:
            helpers = [Helper(name, place.offers, load[name]) for name, place in containers.items()]
            decision = decide(old, self._retention, helpers, self._executor.outcome(key_of(old)))
            if isinstance(decision, Bind):
                if load.total() >= self._retention.at_once:
                    break
                load[decision.container] += 1
            decided.append((old, decision))
        return decided


def _write(connection: Connection, old: UnusedGeneration, decision: Decision) -> None:
    match decision:
        case Bind(container):
            generations.bind(connection, old.job, old.generation, container)
        case Gone():
            log.info("generation collected", job=old.job, generation=old.generation, container=old.container)
            COLLECTED.inc()
            generations.collected(connection, old.job, old.generation)
        case Again(why):
            log.warning("generation stays", job=old.job, generation=old.generation, error=why)
            pause = backoff_seconds(old.attempts)
            generations.release(connection, old.job, old.generation, why=why, seconds=pause)
        case Keep() if old.container is not None:
            generations.release(connection, old.job, old.generation, why="it is needed", seconds=0.0)
        case Keep() | Look() | Nobody():
            pass
