"""The decisions of a round as rows to write and lines to log; the views themselves are not kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import orjson

from penstock.control.logs import logger
from penstock.store.plans import PlanWrite
from penstock.store.running import CommitRow
from penstock.store.sync import SyncWrite
from services.state_syncer.budget import Candidate, Room, Turns, put_off
from services.state_syncer.moves import (
    Finish,
    Hold,
    IllegalMove,
    Look,
    PlanDecision,
    Record,
    Resume,
    Stumble,
)
from services.state_syncer.plan import (
    AwaitStopped,
    Begin,
    Commit,
    Decision,
    Fail,
    Forget,
    JobView,
    SyncRecord,
    Upgrade,
    Wait,
    next_record,
    wait,
)
from services.state_syncer.progress import Plan, step_number
from services.state_syncer.rescale import begin, record_of
from services.state_syncer.rollout import (
    End,
    Halt,
    Note,
    Roll,
    RolloutDecision,
    Settle,
    Stay,
    begin_rollout,
    carry_on,
    next_step,
    record_of_rollout,
)
from services.state_syncer.sinks import Sinks, awaits_sink, end_of
from services.state_syncer.store import Batch, RanOn, sync_row
from services.state_syncer.story import Story, stories_of_plan, stories_of_rollout, story_of
from services.state_syncer.waves import RolloutPolicy

log = logger(__name__)


class DecidedRound:
    """All decisions of a round. `room` for plans is asked for only when one would begin. `working`: plans whose
    container is to be asked once all is written; `making`: jobs whose output is to be made first."""

    def __init__(self, now: datetime, room: Callable[[], Room], sinks: Sinks, policy: RolloutPolicy) -> None:
        self.batch = Batch()
        self.stories: list[Story] = []
        self.jobs = 0
        self.awaiting = 0
        self.working: list[tuple[JobView, Record | Look]] = []
        self.making: list[Candidate[Commit]] = []
        self._now = now
        self._room = room
        self._sinks = sinks
        self._policy = policy
        self._turns: Turns | None = None

    def add(self, view: JobView) -> None:
        """Decides about a job."""
        self.jobs += 1
        decision = self._decide(view)
        if isinstance(decision, Begin | Commit | Upgrade) and self._awaits_sink(view, decision):
            return
        match decision:
            case Begin() | Upgrade():
                self._queue_up(Candidate(view, decision))
            case Roll() | Note() | Stay() | Settle() | Halt() | End():
                self._add_rollout(view, decision)
            case Hold() | Record() | Look() | Finish() | Resume() | Stumble():
                self._add_plan(view, decision)
            case _:
                self._add(view, decision)

    def begin_plans(self, who_ran: RanOn) -> None:
        """Begins those rescales and outputs that there is room for; to be called after the last job. `who_ran` tells
        the containers that have tasks of jobs."""
        for candidate, waits in self._sinks.picked():
            self._put_off(candidate.view, waits)
            self.making.append(candidate)
        if self._turns is not None:
            may_begin, late = self._turns.picked()
            ran_on = who_ran([view.job for view, begun in may_begin if isinstance(begun, Begin)])
            for view, begun in may_begin:
                if isinstance(begun, Begin):
                    self._add_plan(view, begin(view, begun, self._now, ran_on.get(view.job, ())))
                else:
                    self._add_rollout(view, begin_rollout(view, begun, self._now, self._policy))
            for each in late:
                self._wait_for_room(each, self._turns.room)

    def _decide(self, view: JobView) -> Decision | PlanDecision | RolloutDecision:
        try:
            return next_step(view, self._now, self._policy)
        except IllegalMove as bug:
            log.exception("a plan broke", job=view.job)
            return Fail(f"this is a bug in Penstock: {bug}")

    def _queue_up(self, candidate: Candidate[Begin | Upgrade]) -> None:
        if self._turns is None:
            self._turns = Turns(self._room())
        late = self._turns.offer(candidate)
        if late is not None:
            self._wait_for_room(late, self._turns.room)

    def _wait_for_room(self, late: Candidate[Begin | Upgrade], room: Room) -> None:
        """A rollout that is under way goes on meanwhile."""
        if late.view.rolling is not None:
            self._add_rollout(late.view, carry_on(late.view, self._now, self._policy))
        else:
            self._add(late.view, wait(late.view, put_off(late, room)))

    def _awaits_sink(self, view: JobView, decision: Begin | Commit | Upgrade) -> bool:
        """Whether an output has to be made first, or cannot be; then that is decided."""
        commit = _end_of(view, decision)
        if not awaits_sink(view, commit):
            return False
        found = self._sinks.look(view, commit)
        if isinstance(found, Commit):
            # What may have to wait for room: who made its output is not forgotten meanwhile.
            self.making += [Candidate(view, commit)] if isinstance(decision, Begin | Upgrade) else []
            return False
        if found is not None:
            self._add(view, wait(view, found))
        else:
            late = self._sinks.offer(view, commit)
            if late is not None:
                self._put_off(*late)
        return True

    def _put_off(self, view: JobView, waits: Wait) -> None:
        self._add(view, wait(view, waits))
        self.awaiting += 1

    # ---- jobs without a plan

    def _add(self, view: JobView, decision: Decision) -> None:
        match decision:
            case Commit():
                self._commit(view, decision)
                if view.running is None and view.last_generation > 0:
                    self.batch.remade.append(view.job)
            case Forget():
                self.batch.forget.append(view.job)
            case AwaitStopped():
                self.awaiting += 1
        changed = self._add_state(view, next_record(view, decision, self._now))
        story = story_of(view, decision)
        if story is not None and (changed or isinstance(decision, Commit | Forget)):
            self.stories.append(story)

    def _commit(self, view: JobView, commit: Commit, *, started: bool = False) -> None:
        """`started`: there are checkpoints, whether tasks are asked for or not."""
        config = orjson.dumps(commit.config)
        started = started or commit.asks_for_tasks
        self.batch.commits.append(
            CommitRow(
                view.job,
                config,
                commit.revision,
                commit.generation,
                commit.restarts,
                commit.stopping,
                started,
                None if commit.rollout is None else commit.rollout.model_dump(mode="json"),
            )
        )
        self.awaiting += commit.stopping

    def _add_state(self, view: JobView, record: SyncRecord | None) -> bool:
        if record is None or record == view.sync:
            return False
        seen = None if view.sync is None else sync_row(view.sync)
        self.batch.states.append(SyncWrite(view.job, sync_row(record), seen))
        return True

    # ---- plans

    def _add_plan(self, view: JobView, decision: PlanDecision) -> None:
        match decision:
            case Hold(plan, commit):
                self._commit(view, commit)
                self.batch.plans.append(_recorded(view.job, plan))
            case Record(plan):
                self.batch.plans.append(_recorded(view.job, plan))
                self.working.append((view, decision))
            case Look():
                self.working.append((view, decision))
            case Finish(plan, commit, seconds):
                self._commit(view, commit, started=True)
                self.batch.plans.append(PlanWrite(view.job, None, seconds=seconds))
                if plan.restore is not None:
                    self.batch.restored[view.job] = plan.restore.number
            case Resume(_, commit):
                self._commit(view, commit)
                self.batch.plans.append(PlanWrite(view.job, None))
        self._add_state(view, record_of(view, decision, self._now))
        self.stories += stories_of_plan(view, decision)
        # Whatever comes next, be it a write that waited, should come soon.
        self.awaiting += 1

    def _add_rollout(self, view: JobView, decision: RolloutDecision) -> None:
        plan = decision.plan
        record = PlanWrite(view.job, plan.model_dump(mode="json"), plan.step_number)
        match decision:
            case Roll(_, commit):
                self._commit(view, commit)
                self.batch.plans.append(record)
            case Note():
                self.batch.plans.append(record)
            case Halt(_, rejected):
                self.batch.plans.append(record._replace(rejected=rejected.model_dump(mode="json")))
            case End(_, commit):
                self._commit(view, commit)
                self.batch.plans.append(PlanWrite(view.job, None))
            case Settle():
                self.batch.plans.append(PlanWrite(view.job, None))
        self._add_state(view, record_of_rollout(view, decision, self._now))
        self.stories += stories_of_rollout(view, decision)
        self.awaiting += 1


def _end_of(view: JobView, decision: Begin | Commit | Upgrade) -> Commit:
    """The commit that a decision comes to."""
    match decision:
        case Begin():
            return end_of(view, decision)
        case Upgrade():
            return decision.commit
        case Commit():
            return decision


def _recorded(job: str, plan: Plan) -> PlanWrite:
    return PlanWrite(job, plan.model_dump(mode="json"), step_number(plan.step), plan.generation)
