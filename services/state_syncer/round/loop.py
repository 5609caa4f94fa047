"""One round: commit simple differences, read, decide, write, then ask containers. A shell around the decisions."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple, Protocol

from penstock.control.errors import StatementTimedOut
from penstock.control.logs import logger
from penstock.control.steps import run_each
from penstock.model.jobs import SYNC_STATES
from services.state_syncer import metrics
from services.state_syncer.decide.budget import Budget, Room, Waits
from services.state_syncer.decide.view import JobView
from services.state_syncer.decide.waves import RolloutPolicy
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.host_tasks.output_tasks import OutputTasks
from services.state_syncer.host_tasks.plan_tasks import PlanTasks
from services.state_syncer.round.events import LOGGED_COMMITS, log_events, log_simple
from services.state_syncer.round.fold import Picked, Round
from services.state_syncer.store.port import RoundInput, SyncStore
from services.state_syncer.store.rollouts import RollingJobs
from services.state_syncer.store.simple import SimpleCommits

log = logger(__name__)
# Simple commits of up to so many jobs are made by name, without going through all jobs.
MOST_NAMED = 1000
# So often, and in its first round, a leader compares all running rows with their sync states.
COMPARE_EVERY = timedelta(minutes=5)
# Rounds that follow each other closely count the jobs by state, for the metrics, only so often.
COUNT_EVERY = timedelta(seconds=5)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Decided(NamedTuple):
    """A round that has read all it needs, and what it is about to begin."""

    this: Round
    picked: Picked


class StateSyncer:
    """Rounds of the State Syncer."""

    def __init__(
        self,
        store: SyncStore,
        now: Callable[[], datetime],
        host_tasks: WantedHostTasks,
        *,
        budget: Budget | None = None,
        rollouts: RolloutPolicy | None = None,
    ) -> None:
        self._store = store
        self._now = now
        self._host_tasks = host_tasks
        self._budget = budget or Budget()
        self._rollouts = rollouts or RolloutPolicy()
        self._compared = (0, _LONG_AGO)
        self._counted_at = _LONG_AGO
        self._last_in_turn = ""

    def round(self, leader_epoch: int) -> bool:
        """Takes the next step for every job. Raises Fenced, Unavailable.

        Simple changes are committed in a transaction of their own, before anything that takes longer.
        """
        with metrics.ROUND_SECONDS.time(), _without_garbage_collection():
            simple, (this, picked) = self._commit_and_decide(leader_epoch, compares=self._compares(leader_epoch))
            this.begin(picked)  # After the reading transaction, which the store would end after some idle seconds.
            if this.batch:
                number = self._store.write(this.batch, leader_epoch)
                log_events(this.written_events(), number)
            # What is recorded by now, and outputs. Host tasks that are not wanted any more are forgotten.
            self._host_tasks.want(this.attempts(), leader_epoch)
            self._show(simple.jobs + this.jobs)
        return this.look_soon or bool(this.batch.left_out)

    def _compares(self, leader_epoch: int) -> bool:
        """A comparison that takes too long in the store costs one round, not every one: a failed one is not repeated
        at once."""
        (epoch, at), now = self._compared, self._now()
        if epoch == leader_epoch and abs(now - at) < COMPARE_EVERY:
            return False
        self._compared = leader_epoch, now
        return True

    def _commit_and_decide(self, leader_epoch: int, *, compares: bool) -> tuple[SimpleCommits, Decided]:
        with self._store.read() as found:
            if not found.fresh:
                return SimpleCommits(), self._decide(found, compares=compares)
            waits = self._budget.room(found.count_running()).waits
        simple, some_only = self._commit_simple(leader_epoch, waits, found.fresh)
        log_simple(simple)
        with self._store.read() as found:
            return simple, self._decide(found, compares=compares, some_only=some_only)

    def _commit_simple(self, leader_epoch: int, waits: Waits, fresh: Sequence[str]) -> tuple[SimpleCommits, bool]:
        """The simple commits, and whether the store took too long to make all of them.

        Then only some jobs are committed in this round, and only some are decided about: a statement over all jobs that
        ends at its time limit would end there in every round.
        """
        some = fresh[:MOST_NAMED]
        for names in (some,) if len(fresh) <= MOST_NAMED else (None, some):
            try:
                simple = self._store.commit_simple(leader_epoch, waits, names=names, sample=LOGGED_COMMITS)
                return simple, names is not None and len(names) < len(fresh)
            except StatementTimedOut as error:
                jobs = len(fresh if names is None else names)
                log.error("simple commits timed out in the store", jobs=jobs, error=error.detail)
        return SimpleCommits(), True

    def _decide(self, found: RoundInput, *, compares: bool, some_only: bool = False) -> Decided:
        """Rollouts come first: those that end leave room for others. `some_only`: of many jobs, those with a plan and
        some others."""
        rolling = found.rolling()
        state_bytes = found.state_bytes(list(found.plans)) if found.plans else {}
        plans = PlanTasks(found.plans, found.containers, self._host_tasks.outcome, state_bytes)
        outputs = OutputTasks(found.containers, self._host_tasks.outcome, self._budget.outputs)
        this = Round(self._now(), self._rollouts, plans, outputs)
        all_read = found.new_ranks is not None
        unread = [] if all_read else [job.job for job in rolling.jobs if not this.watch(job)]
        room = self._room(found, rolling, this.rollouts_ended)
        this.open(room)
        if not all_read:
            for view in found.named([*unread, *rolling.unreadable, *(found.drifted() if compares else ())]):
                this.add(view)
        for view in self._some_views(found) if some_only and not all_read else found.views:
            this.add(view)
        if not all_read:
            rescales = max(0, room.free_rescales) + max(0, room.free_copies)
            for view in found.queued(rescales=rescales, rollouts=room.free):
                this.add(view)
        this.batch.ranks = found.new_ranks
        return Decided(this, this.pick(found.ran_on))

    def _some_views(self, found: RoundInput) -> Iterator[JobView]:
        """Jobs with the plan of a rescale, and some of all others that a round must look at: the next round looks at
        those that come after them."""
        turn = in_turn(found.others, self._last_in_turn, MOST_NAMED)
        self._last_in_turn = turn[-1] if turn else ""
        return found.named(list(dict.fromkeys((*found.plans, *turn, *found.fresh[:MOST_NAMED]))))

    def _room(self, found: RoundInput, rolling: RollingJobs, rollouts_ended: int) -> Room:
        """The room in the blast-radius budget. Jobs that are being deleted take none. Those whose state is only copied
        take a place for copies, and those that are stopped a place for rescales: neither is disrupted."""
        plans = [row for row in found.plans.values() if not row.deleting]
        copies = sum(row.is_copying for row in plans)
        rescales = len(plans) - copies
        of_stopped = rescales - sum(row.disrupts for row in plans)
        rollouts = sum(not job.deleting for job in rolling.jobs) + len(rolling.unreadable) - rollouts_ended
        jobs = found.count_running()
        return self._budget.room(jobs, rollouts=rollouts, rescales=rescales, of_stopped=of_stopped, copies=copies)

    def _show(self, jobs: int) -> None:
        metrics.ROUND_JOBS.set(jobs)
        now = self._now()
        if abs(now - self._counted_at) < COUNT_EVERY:
            return
        self._counted_at = now
        counted = self._store.count_states()
        for state in SYNC_STATES:
            metrics.JOBS.labels(state.value).set(counted.get(state.value, 0))


def in_turn(names: Sequence[str], last: str, count: int) -> list[str]:
    """At most `count` names: those that follow `last` in order of name, and then from the first name on."""
    ordered = sorted(names)
    start = bisect_right(ordered, last)
    return [*ordered[start:], *ordered[:start]][:count]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A round builds trees of JSON, which have no cycles. Searching 10,000 jobs for cycles again and again would take
    half of the round's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Part(Protocol):
    """What has rounds of its own under the lease of the State Syncer."""

    def round(self, leader_epoch: int) -> bool:
        """One round; whether the next one must come soon, as nobody notifies of what it waits for. Raises Fenced when a
        newer leader exists."""
        ...


def run_parts(parts: Sequence[Part], leader_epoch: int, look_soon: Callable[[], None]) -> None:
    """One round of each part. A part that fails does not keep the others from theirs; its error is raised at the end.

    Further errors are logged. Raises Fenced at once: nothing may be written any more.
    """

    def step(part: Part, leader_epoch: int) -> None:
        if part.round(leader_epoch):
            look_soon()

    run_each([partial(step, part) for part in parts], leader_epoch)
