"""One round: read, decide, write, then ask containers. The thin shell around the decisions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from penstock.control.logs import logger
from services.state_syncer import metrics
from services.state_syncer.asks import Ask, key_of, request_of
from services.state_syncer.budget import Budget, Room
from services.state_syncer.decided import DecidedRound
from services.state_syncer.executor import Executor, NobodyToAsk
from services.state_syncer.moves import Look, Record
from services.state_syncer.plan import JobView, SyncState
from services.state_syncer.progress import Step
from services.state_syncer.simple import SET_BASED_FROM, SimpleCommits, Terms
from services.state_syncer.sinks import Sinks
from services.state_syncer.store import RoundInput, SyncStore
from services.state_syncer.story import tell, tell_simple
from services.state_syncer.watch import Watch
from services.state_syncer.waves import RolloutPolicy

log = logger(__name__)


class StateSyncer:
    """Rounds of the State Syncer. `wake_in` asks for the next round sooner than the period, in seconds."""

    def __init__(
        self,
        store: SyncStore,
        now: Callable[[], datetime],
        *,
        await_seconds: float,
        set_based_from: int = SET_BASED_FROM,
        executor: Executor | None = None,
        budget: Budget | None = None,
        rollouts: RolloutPolicy | None = None,
        initialize_count: int = 32,
    ) -> None:
        self._store = store
        self._now = now
        self._await_seconds = await_seconds
        self._set_based_from = set_based_from
        self._executor = executor or NobodyToAsk()
        self._budget = budget or Budget()
        self._rollouts = rollouts or RolloutPolicy()
        self._initialize_count = initialize_count
        self.wake_in: Callable[[float], None] = wait_for_the_period

    def round(self, leader_epoch: int) -> None:
        """Brings every job as far as it can go now. Raises Fenced, Unavailable."""
        with metrics.ROUND_SECONDS.time():
            simple, decided, watch, sinks = self._settle_and_decide(leader_epoch)
            if decided.batch:
                number = self._store.write(decided.batch, leader_epoch)
                tell(decided.stories, number)
            self._ask(decided, watch, sinks)
            self._show(simple.jobs + decided.jobs)
        if decided.awaiting or simple.awaiting:
            # Nobody notifies of a task's end, and a user waits for it: look again soon.
            self.wake_in(self._await_seconds)

    def _settle_and_decide(self, leader_epoch: int) -> tuple[SimpleCommits, DecidedRound, Watch, Sinks]:
        """What the set-based way settled, if there was enough for it; and what to do about the others."""
        with self._store.read(self._budget.limit) as found:
            if max(found.usual, found.rollouts) < self._set_based_from:
                return SimpleCommits(), *self._decide(found)
        simple = self._store.commit_simple(leader_epoch, Terms(self._now(), self._budget, self._rollouts))
        tell_simple(simple.committed, simple.number, simple.settled)
        with self._store.read(self._budget.limit, simple.number) as found:
            return simple, *self._decide(found)

    def _decide(self, found: RoundInput) -> tuple[DecidedRound, Watch, Sinks]:
        watch = Watch(found.plans, found.containers, self._executor.outcome, found.rollouts)
        sinks = Sinks(found.containers, self._executor.outcome, self._initialize_count)
        decided = DecidedRound(self._now(), lambda: self._room(found, watch), sinks, self._rollouts)
        for view in found.views:
            decided.add(watch.look(view))
        decided.begin_plans(found.ran_on)
        decided.batch.ranks = found.new_ranks
        return decided, watch, sinks

    def _room(self, found: RoundInput, watch: Watch) -> Room:
        return self._budget.room(found.count_running(), active=watch.active, rescales=watch.rescales)

    def _ask(self, decided: DecidedRound, watch: Watch, sinks: Sinks) -> None:
        """What is recorded by now is asked for, and outputs to be made; everybody else's work is forgotten."""
        asks, rejected = sinks.asks(decided.making)
        for view, decision in decided.working:
            ask = _ask_of(view, decision, watch)
            if isinstance(ask, Ask):
                asks.append(ask)
            elif ask is not None:
                rejected[key_of(view.job, decision.plan, view.failures)] = ask
        self._executor.ask(asks)
        for key, error in rejected.items():
            self._executor.reject(key, error)

    def _show(self, jobs: int) -> None:
        metrics.ROUND_JOBS.set(jobs)
        counted = self._store.count_states()
        for state in SyncState:
            metrics.JOBS.labels(state.value).set(counted.get(state.value, 0))


def _ask_of(view: JobView, decision: Record | Look, watch: Watch) -> Ask | str | None:
    """What to ask for a decision's plan: nothing while nobody can be asked, an error when it cannot be put."""
    plan, running = decision.plan, view.running
    url = watch.url(plan.container)
    if plan.step is Step.AWAIT_STOPPED or running is None or url is None:
        return None
    try:
        return Ask(key_of(view.job, plan, view.failures), url, request_of(view.job, plan, running))
    except ValueError as error:
        return f"the request cannot be made: {error}"


def wait_for_the_period(_: float) -> None:
    """Without a loop around it the next round comes when the caller makes it."""
