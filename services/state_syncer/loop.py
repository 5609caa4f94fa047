"""One round: read, decide, write. The thin shell around `plan.decide`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import orjson

from penstock.store.running import CommitRow
from penstock.store.sync import SyncWrite
from services.state_syncer import metrics
from services.state_syncer.plan import (
    AwaitStopped,
    Commit,
    Decision,
    Forget,
    JobView,
    SyncState,
    decide,
    next_record,
)
from services.state_syncer.simple import SET_BASED_FROM
from services.state_syncer.store import Batch, RoundInput, SyncStore, sync_row
from services.state_syncer.story import Story, story_of, tell, tell_simple


class StateSyncer:
    """Rounds of the State Syncer. `wake_in` asks for the next round sooner than the period, in seconds."""

    def __init__(
        self,
        store: SyncStore,
        now: Callable[[], datetime],
        *,
        await_seconds: float,
        set_based_from: int = SET_BASED_FROM,
    ) -> None:
        self._store = store
        self._now = now
        self._await_seconds = await_seconds
        self._set_based_from = set_based_from
        self.wake_in: Callable[[float], None] = _wait_for_the_period

    def round(self, leader_epoch: int) -> None:
        """Brings every job as far as it can go now. Raises Fenced, Unavailable."""
        with metrics.ROUND_SECONDS.time():
            settled, decided = self._settle_and_decide(leader_epoch)
            if decided.batch:
                number = self._store.write(decided.batch, leader_epoch)
                tell(decided.stories, number)
            self._show(settled + decided.jobs)
        if decided.awaiting:
            # Nobody notifies of a task's end, and a user waits for the deletion: look again soon.
            self.wake_in(self._await_seconds)

    def _settle_and_decide(self, leader_epoch: int) -> tuple[int, _DecidedRound]:
        """How many jobs the set-based way settled, if there was enough for it; and what to do about the others."""
        with self._store.read() as found:
            if found.usual < self._set_based_from:
                return 0, self._decide(found)
        simple = self._store.commit_simple(leader_epoch)
        tell_simple(simple.committed, simple.number)
        with self._store.read() as found:
            return simple.jobs, self._decide(found)

    def _decide(self, found: RoundInput) -> _DecidedRound:
        decided = _DecidedRound(self._now())
        for view in found.views:
            decided.add(view)
        decided.batch.ranks = found.new_ranks
        return decided

    def _show(self, jobs: int) -> None:
        metrics.ROUND_JOBS.set(jobs)
        counted = self._store.count_states()
        for state in SyncState:
            metrics.JOBS.labels(state.value).set(counted.get(state.value, 0))


def _wait_for_the_period(_: float) -> None:
    """Without a loop around it the next round comes when the caller makes it."""


class _DecidedRound:
    """The decisions of a round as rows to write and lines to log; the views themselves are not kept."""

    def __init__(self, now: datetime) -> None:
        self.batch = Batch()
        self.stories: list[Story] = []
        self.jobs = 0
        self.awaiting = 0
        self._now = now

    def add(self, view: JobView) -> None:
        """Decides about a job."""
        decision = decide(view, self._now)
        self.jobs += 1
        match decision:
            case Commit():
                self._add_commit(view, decision)
            case Forget():
                self.batch.forget.append(view.job)
            case AwaitStopped():
                self.awaiting += 1
        self._add_state(view, decision)

    def _add_commit(self, view: JobView, commit: Commit) -> None:
        config = orjson.dumps(commit.config)
        started = commit.asks_for_tasks
        self.batch.commits.append(
            CommitRow(
                view.job, config, commit.revision, commit.generation, commit.restarts, commit.stopping, started=started
            )
        )
        self.awaiting += commit.stopping
        if view.running is None and view.last_generation > 0:
            self.batch.remade.append(view.job)

    def _add_state(self, view: JobView, decision: Decision) -> None:
        record = next_record(view, decision, self._now)
        changed = record is not None and record != view.sync
        if record is not None and changed:
            seen = None if view.sync is None else sync_row(view.sync)
            self.batch.states.append(SyncWrite(view.job, sync_row(record), seen))
        story = story_of(view, decision)
        if story is not None and (changed or isinstance(decision, Commit | Forget)):
            self.stories.append(story)
