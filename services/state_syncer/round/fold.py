"""Collects a round's decisions. It keeps a view only while its job may still begin, or a container is to be asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import orjson

from penstock.control.logs import logger
from penstock.store.running import CommitRow
from services.state_syncer.decide.budget import AdmissionQueue, Candidate, Room, Start, put_off
from services.state_syncer.decide.change import awaits_sink, wait
from services.state_syncer.decide.decisions import Commit, Decision, Fail, Record, StartRescale, StartRollout, Wait
from services.state_syncer.decide.effects import Effects, LogEvent, effects, plan_effects
from services.state_syncer.decide.next_step import next_step
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.progress import Plan, Step
from services.state_syncer.decide.rescale import begin_rescale
from services.state_syncer.decide.rollout import begin_rollout, carry_on, watch_rollout
from services.state_syncer.decide.view import Digests, JobRow, JobView, RollingJob
from services.state_syncer.decide.waves import RolloutPolicy
from services.state_syncer.host_tasks.outcomes import Attempt
from services.state_syncer.host_tasks.output_tasks import OutputTasks
from services.state_syncer.host_tasks.plan_tasks import PlanTasks
from services.state_syncer.store.port import Batch, RanOn
from services.state_syncer.store.states import SyncWrite

log = logger(__name__)


class Picked(NamedTuple):
    """What a round may begin and what has to wait, by the budget. `ran_on`: the containers that have tasks of the jobs
    that begin a rescale."""

    admitted: Sequence[Candidate[Start]]
    late: Sequence[Candidate[Start]]
    ran_on: Mapping[str, Collection[str]]


class Round:
    """What a round will write, log and ask for, collected job by job: `watch` rollouts, `open`, `add` jobs, `pick`, and
    `begin`, which needs the store no more."""

    def __init__(
        self,
        now: datetime,
        policy: RolloutPolicy,
        plans: PlanTasks,
        outputs: OutputTasks,
    ) -> None:
        self.batch = Batch()
        self.events: list[LogEvent] = []
        self.jobs = 0
        self.rollouts_ended = 0
        self.look_soon = False
        self._asks: list[tuple[JobView, Plan]] = []
        self._now = now
        self._policy = policy
        self._plans = plans
        self._outputs = outputs
        self._admission = AdmissionQueue(Room(0, 0, 0, 0))

    def watch(self, job: RollingJob) -> bool:
        """Decides about a rollout under way. False when `add` must decide, with the job's configurations."""
        try:
            step = watch_rollout(job, self._now, self._policy)
        except Exception:  # `add` decides about the job again, and fails it
            log.exception("a decision about a job broke", job=job.job)
            return False
        if step is None:
            return False
        self.jobs += 1
        self._fold(job, plan_effects(job, step))
        return True

    def open(self, room: Room) -> None:
        """For how many jobs the budget has room, before any begins in this round."""
        self._admission = AdmissionQueue(room)

    def add(self, unwatched: JobView) -> None:
        """Decides about a job. A bug that it meets fails this job alone."""
        self.jobs += 1
        if unwatched.presence is Presence.UNTOLD and unwatched.running is not None:
            self.batch.unasked_stop = max(self.batch.unasked_stop, unwatched.running.commit_number)
            self.look_soon = True
        view, decision = self._decide(unwatched)
        try:
            waits = self._has_to_wait(view, decision)
        except Exception as bug:  # as in `_decide`: the job waits for nothing, and fails
            log.exception("a decision about a job broke", job=view.job)
            decision, waits = _fail_of(bug), False
        if not waits:
            self._carry_out(view, lambda: decision)

    def _has_to_wait(self, view: JobView, decision: Decision) -> bool:
        """Whether the decision cannot be carried out at once: an output has to be made, or there must be room."""
        match decision:
            case Record(Plan() as plan, commit, disrupts=True):
                self._offer(Candidate(view, Record(plan, commit, disrupts=True)))
                return True
            case StartRescale(commit) | StartRollout(commit):
                if not self._awaits_output(view, commit, is_start=True):
                    self._offer(Candidate(view, decision))
                return True
            case Commit():
                return self._awaits_output(view, decision, is_start=False)
        return False

    def pick(self, who_ran: RanOn) -> Picked:
        """Picks the rescales and rollouts that there is room for; to be called after the last job.

        `who_ran` gives the containers that have tasks of jobs.
        """
        admitted, late = self._admission.picked()
        rescaled = [view.job for view, start in admitted if isinstance(start, StartRescale)]
        return Picked(admitted, late, who_ran(rescaled))

    def begin(self, picked: Picked) -> None:
        """Begins what was picked, and the outputs that there is room for; all others wait."""
        for view, waits in self._outputs.picked():
            self._put_off(view, waits)
        for view, start in picked.admitted:
            match start:
                case Record():
                    self._carry_out(view, partial(_decided, start))
                case StartRescale():
                    ran_on = picked.ran_on.get(view.job, ())
                    self._carry_out(view, partial(begin_rescale, view, start, self._now, ran_on))
                case StartRollout():
                    self._carry_out(view, partial(begin_rollout, view, start, self._now, self._policy))
        for each in picked.late:
            self._leave_waiting(each)

    def attempts(self) -> list[Attempt]:
        """What containers are asked once all is written: steps of plans that were recorded, and outputs that are made
        first."""
        asks = [(view, plan) for view, plan in self._asks if view.job not in self.batch.left_out]
        return [*self._plans.attempts(asks), *self._outputs.attempts()]

    def written_events(self) -> list[LogEvent]:
        """What is to be told of what was written."""
        return [event for event in self.events if event.job not in self.batch.left_out]

    def _decide(self, unwatched: JobView) -> tuple[JobView, Decision]:
        try:
            view = self._plans.observe(unwatched)
            return view, next_step(view, self._now, self._policy)
        except Exception as bug:  # one job's bug must not stop all other jobs
            log.exception("a decision about a job broke", job=unwatched.job)
            return unwatched, _fail_of(bug)

    # ---- jobs that wait for room, or for an output

    def _offer(self, candidate: Candidate[Start]) -> None:
        late = self._admission.offer(candidate)
        if late is not None:
            self._leave_waiting(late)

    def _leave_waiting(self, late: Candidate[Start]) -> None:
        """A rollout that is under way goes on meanwhile."""
        view = late.view
        admission = self._admission
        told = put_off(late, admission.room, is_kept=view.job in admission.kept_back)
        if view.rolling is not None:
            self._carry_out(view, lambda: carry_on(view, self._now, self._policy))
        else:
            self._carry_out(view, lambda: wait(view, told) if isinstance(told, Wait) else told)

    def _awaits_output(self, view: JobView, commit: Commit, *, is_start: bool) -> bool:
        """Whether an output has to be made first, or cannot be; then that is decided."""
        if not awaits_sink(view, commit):
            return False
        found = self._outputs.resolve(view, commit, is_start=is_start)
        if isinstance(found, Commit):
            return False
        if found is not None:
            self._carry_out(view, lambda: wait(view, found))
        else:
            late = self._outputs.offer(view, commit)
            if late is not None:
                self._put_off(*late)
        return True

    def _put_off(self, view: JobView, waits: Wait) -> None:
        self._carry_out(view, lambda: wait(view, waits))
        self.look_soon = True

    # ---- what a decision comes to

    def _carry_out(self, view: JobView, decide: Callable[[], Decision]) -> None:
        try:
            found = effects(view, decide(), self._now)
            commit = None if found.commit is None else _commit_row(view, found.commit, has_state=found.has_state)
        except Exception as bug:  # as above
            log.exception("a decision about a job broke", job=view.job)
            found, commit = effects(view, _fail_of(bug), self._now), None
        if commit is not None:
            self.batch.commits.append(commit)
            if commit.started and (view.running is None or not view.running.started):
                self.batch.starts[view.job] = view.revision
            if view.running is None and view.last_generation > 0:
                self.batch.remade.append(view.job)
        if found.asks is not None:
            self._asks.append((view, found.asks))
            if found.asks.restore is not None and _begins_to_seal(view, found.asks):
                self.batch.seals[view.job] = found.asks.restore.number
        if found.restored is not None:
            self.batch.restored[view.job] = found.restored
        if found.forget:
            self.batch.forget.append(view.job)
        self._fold(view, found)

    def _fold(self, job: JobRow, found: Effects) -> None:
        """What needs no configuration."""
        is_new = found.record is not None and found.record != job.sync
        if found.record is not None and is_new:
            self.batch.states.append(SyncWrite(job.job, found.record, job.sync))
        if found.plan is not None:
            self.batch.plans.append(found.plan)
            self.rollouts_ended += isinstance(job, RollingJob) and found.plan.plan is None
        self.events += [event for event in found.events if is_new or not event.if_new]
        self.look_soon |= found.soon


def _decided(decision: Decision) -> Decision:
    return decision


def _begins_to_seal(view: JobView, plan: Plan) -> bool:
    """Whether this round records that the old generation is given up."""
    recorded = None if view.progress is None else view.progress.plan.step
    return plan.step is Step.SEAL and recorded is not Step.SEAL


def _fail_of(bug: Exception) -> Fail:
    return Fail(f"this is a bug in Penstock: {type(bug).__name__}: {bug}")


def _commit_row(view: JobView, commit: Commit, *, has_state: bool) -> CommitRow:
    return CommitRow(
        view.job,
        orjson.dumps(commit.config),
        commit.revision,
        commit.generation,
        commit.restarts,
        commit.stopping,
        has_state or commit.asks_for_tasks,
        None if commit.rollout is None else commit.rollout.model_dump(mode="json"),
        _digests(view, commit),
        commit.quiescing,
        commit.level_ms,
    )


def _digests(view: JobView, commit: Commit) -> Digests | None:
    """Those that are stored with the configuration; None where the store has to compute them."""
    if commit.config is view.expected:
        return view.digests
    return view.running.digests if view.running is not None and commit.config is view.running.config else None
