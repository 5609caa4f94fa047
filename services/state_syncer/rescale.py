"""A rescale, step by step: from what is recorded and what is seen to one decision. Pure.

    stop > await_stopped > redistribute > seal > commit

`stop` is committed with the record of the plan, `commit` ends it in the transaction of the new running row. Until
`seal` is recorded nothing of the old generation is touched, so whatever goes wrong resumes it. From then on the plan
only goes forward, to the configuration that it has recorded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from services.state_syncer.moves import (
    MOVES,
    Fact,
    Finish,
    Hold,
    IllegalMove,
    Look,
    Move,
    PlanDecision,
    Record,
    Resume,
    Stumble,
)
from services.state_syncer.observe import Presence
from services.state_syncer.plan import (
    Begin,
    Commit,
    Decision,
    Fail,
    Held,
    JobView,
    Running,
    SyncRecord,
    SyncState,
    Wait,
    decide,
    failed,
    field_names,
    is_held,
    next_record,
    only,
)
from services.state_syncer.progress import Done, Failed, Lost, Plan, Progress, Step, elapsed
from services.state_syncer.sinks import awaits_sink, end_of

LOSSES_BEFORE_ABORT = 3
LONGEST_SECONDS = {Step.AWAIT_STOPPED: 300.0, Step.REDISTRIBUTE: 3600.0}


def next_decision(view: JobView, now: datetime) -> Decision | PlanDecision:
    """The one next step for a job, with or without a plan. A deletion goes first and leaves the record as it is."""
    if view.progress is None or view.running is None or view.deleting:
        return decide(view, now)
    if view.progress.plan.step is Step.SEAL and is_held(view.sync, view.revision, now):
        return Held()
    return _go_on(view, view.running, view.progress, now)


def begin(view: JobView, begun: Begin, now: datetime, ran_on: Collection[str] = ()) -> Hold:
    """The first step of a rescale that may begin now. `ran_on`: the containers that have tasks of the job."""
    if view.running is None:
        raise IllegalMove(f"{view.job} has nothing to stop")
    return Hold(_new_plan(view, begun, now, ran_on), held(view.running))


def held(running: Running) -> Commit:
    """What runs, stopped."""
    return replace(_resumed(running), stopping=True)


def _new_plan(view: JobView, begun: Begin, now: datetime, ran_on: Collection[str]) -> Plan:
    return Plan(
        revision=view.revision,
        restarts=view.restarts,
        config=dict(begun.config),
        fields=field_names(begun.difference),
        restore=begun.restore,
        ran_on=tuple(sorted(ran_on)),
        begun_at=now,
        step_at=now,
    )


def _go_on(view: JobView, running: Running, progress: Progress, now: datetime) -> PlanDecision:
    plan = progress.plan
    found = fact(view, progress, now)
    move = MOVES.get((plan.step, found))
    match move:
        case Move.STAY:
            return Look(plan)
        case Move.REPLAN:
            return _replan(view, running, plan, now)
        case Move.ABORT:
            return Resume(plan, _resumed(running), _failure(progress, found))
        case Move.REDISTRIBUTE:
            return _redistribute(progress, now)
        case Move.ELSEWHERE:
            return _elsewhere(running, progress)
        case Move.SEAL:
            return Record(plan.at(Step.SEAL, now, plan.container, plan.generation))
        case Move.STUMBLE:
            return Stumble(plan, _failure(progress, found))
        case Move.COMMIT:
            return _finish(view, running, plan, now)
        case None:
            raise IllegalMove(f"{found.name} cannot be found in {plan.step}: {plan}")


NOBODY = "no container can be asked"


def fact(view: JobView, progress: Progress, now: datetime) -> Fact:
    """What is found about the plan's step; before the seal a changed configuration goes before all else."""
    plan = progress.plan
    if plan.step is not Step.SEAL and _is_changed(view, plan):
        return Fact.CHANGED
    found = _presence(view) if plan.step is Step.AWAIT_STOPPED else _answer(progress)
    waits = found in (Fact.NOT_GONE, Fact.UNANSWERED)
    limit = LONGEST_SECONDS.get(plan.step)
    return Fact.LATE if waits and limit is not None and elapsed(plan.step_at, now) >= limit else found


def _is_changed(view: JobView, plan: Plan) -> bool:
    return (
        view.revision > plan.revision
        or view.restarts > plan.restarts
        or view.expected != plan.config
        or view.restore != plan.restore
    )


def _presence(view: JobView) -> Fact:
    stopped = view.running is not None and view.running.stopping
    return Fact.GONE if stopped and view.presence is Presence.ABSENT else Fact.NOT_GONE


def _answer(progress: Progress) -> Fact:
    match progress.outcome:
        case Done():
            return Fact.DONE
        case Failed():
            return Fact.FAILED
        case Lost():
            return Fact.LOST
        case _:
            return Fact.UNANSWERED if progress.container_lives else Fact.LOST


def _redistribute(progress: Progress, now: datetime) -> Record | Look:
    """An attempt has a number that was never used, so it cannot meet any before it."""
    plan = progress.plan
    if progress.candidate is None:
        return Look(plan, NOBODY)
    return Record(plan.at(Step.REDISTRIBUTE, now, progress.candidate, progress.newest_generation + 1))


def _elsewhere(running: Running, progress: Progress) -> Record | Look | Resume:
    plan = progress.plan
    losses = plan.losses + 1
    if plan.step is Step.REDISTRIBUTE and losses >= LOSSES_BEFORE_ABORT:
        return Resume(plan, _resumed(running), _failure(progress, Fact.LOST))
    if progress.candidate is None:
        return Look(plan, NOBODY)
    changes: dict[str, object] = {"container": progress.candidate, "losses": losses}
    if plan.step is Step.REDISTRIBUTE:
        changes["generation"] = progress.newest_generation + 1
    return Record(plan.model_copy(update=changes))


def _finish(view: JobView, running: Running, plan: Plan, now: datetime) -> Finish:
    if plan.generation is None or plan.generation <= running.generation:
        raise IllegalMove(f"{view.job} has no new generation to commit: {plan}")
    seconds = {**plan.seconds_until(now), "total": elapsed(plan.begun_at, now)}
    difference = classify(running.config, plan.config)
    commit = Commit(plan.config, plan.revision, plan.generation, plan.restarts, difference=difference)
    return Finish(plan, commit, seconds)


def _replan(view: JobView, running: Running, plan: Plan, now: datetime) -> PlanDecision:
    """The same redistribution goes on when only the rest of the write is new; another one begins at the stopped job;
    without any the old generation goes on, as it does when another output has to be made first."""
    decision = decide(view, now)
    match decision:
        case Begin() | Commit(then=None) if _has_other_output(view, plan, decision):
            waits = Wait("initialize_sink: once the job runs again", decision.difference)
            return Resume(plan, replace(_resumed(running), then=waits))
        case Begin():
            fresh = _new_plan(view, decision, now, plan.ran_on)
            return Record(_carried_over(plan, fresh) if _same_target(running, plan, fresh) else fresh)
        case Commit(then=None):
            return Resume(plan, decision)
        case Fail():
            return Resume(plan, _resumed(running), decision)
        case _:
            raise IllegalMove(f"{decision} cannot follow from a change of {plan}")


def _has_other_output(view: JobView, plan: Plan, decision: Begin | Commit) -> bool:
    """Whether an output would have to be made that the plan's is not: a job does not stay stopped for that."""
    commit = end_of(view, decision) if isinstance(decision, Begin) else decision
    return awaits_sink(view, commit) and bool(commit.config["output"] != plan.config["output"])


def _same_target(running: Running, plan: Plan, fresh: Plan) -> bool:
    old, new = (only(classify(running.config, each.config), ChangeKind.RESCALE) for each in (plan, fresh))
    same_output = plan.config["output"] == fresh.config["output"]
    return old == new and plan.restore == fresh.restore and (same_output or plan.restore is None)


def _carried_over(plan: Plan, fresh: Plan) -> Plan:
    return plan.model_copy(update={name: getattr(fresh, name) for name in ("revision", "restarts", "config", "fields")})


def _resumed(running: Running) -> Commit:
    """What ran, as it ran: a rollout that a rescale came upon goes on from there."""
    return Commit(running.config, running.revision, running.generation, running.restarts, rollout=running.rollout)


def _failure(progress: Progress, found: Fact) -> Fail:
    plan = progress.plan
    told = [f"step {plan.step.value}", *([f"on {plan.container}"] if plan.container else [])]
    match progress.outcome:
        case Failed(why) | Lost(why):
            said = f": {why}"
        case _:
            said = ""
    return Fail(f"{' '.join(told)}: {found.value}{said}", ChangeKind.RESCALE, plan.fields)


def record_of(view: JobView, decision: PlanDecision, now: datetime) -> SyncRecord | None:
    """The sync state that a decision leads to; failures are kept until a plan has come to its end."""
    match decision:
        case Resume(failure=Fail() as failure) | Stumble(failure=failure):
            return failed(view, failure, now)
        case Resume():
            return next_record(view, decision.commit, now)
        case Finish():
            fields = field_names(decision.commit.difference)
            return SyncRecord(SyncState.SYNCED, decision.plan.revision, kind=ChangeKind.RESCALE, fields=fields)
        case Hold() | Record() | Look():
            return _rescaling(view, decision)


def _rescaling(view: JobView, decision: Hold | Record | Look) -> SyncRecord:
    plan = decision.plan
    why = decision.why if isinstance(decision, Look) else ""
    detail = f"{plan.step.value}: {why or describe(plan)}"
    failures = view.failures_since(plan.revision)
    return SyncRecord(SyncState.RESCALING, plan.revision, detail, ChangeKind.RESCALE, plan.fields, failures)


def describe(plan: Plan) -> str:
    """What is waited for, for people."""
    match plan.step:
        case Step.AWAIT_STOPPED:
            return "until every container has said that no task of the job runs"
        case Step.REDISTRIBUTE:
            return f"{plan.container} writes generation {plan.generation}"
        case Step.SEAL:
            return f"{plan.container} ends the generation before {plan.generation}"
