"""A rescale, step by step: one decision from the recorded plan and the observed progress. Pure.

    copy_state > quiesce [> level] > stop > await_stopped > redistribute > seal > commit

The state is copied while the tasks run. If that fails, all of it is moved after the stop. Three commits: (1) tasks take
no more rows; (2) once their batches are done, the stop; (3) the new running row, which ends the plan. Between 1 and 2,
where tasks are behind: these read on. A job without tasks and one that is to be restored begin with the stop.

Neither (1) nor (2) is committed while a task does not run that will run again: what it left is finished by a job that
runs, or the rescale is taken back.

Until `seal` is recorded the old generation can be resumed, so every failure resumes it. After that the plan only goes
forward, to the configuration that it has recorded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.model.states import JobState
from penstock.tasks.host_task import INITIALIZE_SINK
from penstock.tasks.redistribution import CopyReport, RedistributionReport
from penstock.tasks.rollout import is_upgrade
from penstock.tasks.sinks import outputs_of
from services.state_syncer.decide.change import (
    awaits_sink,
    decide,
    is_backing_off,
    is_to_stop,
    restarted,
    stopped_config,
)
from services.state_syncer.decide.decisions import (
    BackingOff,
    Commit,
    End,
    Fail,
    Finish,
    Poll,
    Record,
    RescaleStep,
    RetryStep,
    StartRescale,
    Wait,
)
from services.state_syncer.decide.facts import Fact, found_of, lost_since, seconds_left
from services.state_syncer.decide.moves import MOVES, Move
from services.state_syncer.decide.progress import (
    QUIESCED_STEPS,
    RUNNING_STEPS,
    IllegalMove,
    Plan,
    Progress,
    Step,
    elapsed,
)
from services.state_syncer.decide.view import JobView, Running
from services.state_syncer.decide.whereabouts import Whereabouts
from services.state_syncer.host_tasks.outcomes import Done, Failed, Lost, Unanswered

NOBODY = "no container can be asked"
_TIMES = ("begun_at", "step_at", "seconds", "lost_at", "taken_back")


def begin_rescale(view: JobView, start: StartRescale, now: datetime, ran_on: Collection[str] = ()) -> Record[Plan]:
    """The first step of a rescale that may begin now. `ran_on`: the containers that have tasks of the job."""
    if view.running is None:
        raise IllegalMove(f"{view.job} has nothing to stop")
    plan = _new_plan(start, now, ran_on, Step.COPY if start.copies else Step.AWAIT_STOPPED)
    plan = plan.model_copy(update={"failed_before": _failed_before(view)})
    return Record(plan) if start.copies else Record(plan, replace(_resumed(view.running), stopping=True))


def _failed_before(view: JobView) -> str:
    is_again = view.sync is not None and view.sync.state is JobState.FAILED and view.failures_since(view.revision)
    return view.sync.detail if is_again and view.sync is not None else ""


def continue_rescale(view: JobView, running: Running, progress: Progress, now: datetime) -> RescaleStep | BackingOff:
    """The next step of a recorded plan. A seal that failed waits like any other failure. Raises IllegalMove."""
    plan = progress.plan
    if plan.step is Step.SEAL and is_backing_off(view.sync, view.revision, now):
        return BackingOff()
    found = found_of(view, progress, now)
    match MOVES.get((plan.step, found)):
        case Move.STAY:
            return Poll(plan, _why(view, progress, found))
        case Move.NOTE:
            noted = plan.model_copy(update={"lost_at": lost_since(view, plan, now)})
            return Record(noted, why=str(view.quiet))
        case Move.TAKE_BACK:
            return Record(plan.again(str(view.quiet.where), now), _resumed(running), why=str(view.quiet.where))
        case Move.HOLD | Move.HOLD_UNCOPIED as move:
            return _quiesced(running, _after_copy(view, progress, found, move, now))
        case Move.LEVEL:
            return _levelled(view, running, plan, now)
        case Move.STOP:
            stopped = replace(_resumed(running), stopping=True)
            return Record(plan.at(Step.AWAIT_STOPPED, now, plan.container, plan.generation), stopped)
        case Move.REPLAN:
            return _replan(view, running, plan, now)
        case Move.ABORT:
            why = _too_far(view, plan, now) if found is Fact.TOO_FAR else ""
            return End(plan, _given_up(view, running), _failure(view, progress, found, why))
        case Move.ASK:
            return _ask(progress, now)
        case Move.DROP_COPY:
            return Record(plan.model_copy(update={"container": None, "generation": None}))
        case Move.SEAL:
            sealing = plan.at(Step.SEAL, now, plan.container, plan.generation)
            return Record(sealing.model_copy(update={"uncopied": plan.uncopied or _unused_copy(progress)}))
        case Move.RETRY:
            return RetryStep(_failure(view, progress, found))
        case Move.COMMIT:
            return _finish(view, running, plan, now)
        case None:
            raise IllegalMove(f"{found.name} cannot be found in {plan.step}: {plan}")


def _why(view: JobView, progress: Progress, found: Fact) -> str:
    """What the plan waits for, where that is known better than by its step."""
    plan, outcome = progress.plan, progress.outcome
    if plan.step in QUIESCED_STEPS:
        furthest = view.quiet.furthest
        since = f" (since {plan.step_at:%H:%M:%S} UTC)" if furthest is not None and furthest.is_unknown else ""
        return f"{view.quiet}{since}"
    if found is Fact.AWAITED:
        return str(view.where)
    told = outcome.progress if isinstance(outcome, Unanswered) else ""
    return f"{plan.container}: {told}" if told else ""


def _after_copy(view: JobView, progress: Progress, found: Fact, move: Move, now: datetime) -> Plan:
    """The plan with the container that has copied the state and the generation that it is in; without a copy, with the
    reason."""
    plan = progress.plan
    if move is Move.HOLD:
        return plan.at(Step.QUIESCE, now, plan.container, plan.generation)
    why = plan.uncopied if found is Fact.UNWANTED else _failure(view, progress, found).detail
    return _without_copy(plan, why if progress.has_state else "", now)


def _without_copy(plan: Plan, why: str, now: datetime) -> Plan:
    return plan.at(Step.QUIESCE, now, plan.container, None).model_copy(update={"uncopied": why})


def _quiesced(running: Running, plan: Plan) -> Record[Plan]:
    """The tasks take no more rows, as soon as the budget has room. The level 0 asks for their watermarks."""
    return Record(plan, replace(_resumed(running), quiescing=True, level_ms=0), disrupts=True)


def _levelled(view: JobView, running: Running, plan: Plan, now: datetime) -> Record[Plan]:
    """The tasks behind the goal read on to it. A greater goal, that of a restarted task, does not give the step more
    time."""
    order = replace(_resumed(running), quiescing=True, level_ms=view.quiet.goal_ms)
    is_again = plan.step is Step.LEVEL
    again = plan.model_copy(update={"lost_at": None})
    return Record(again if is_again else plan.at(Step.LEVEL, now, plan.container, plan.generation), order)


def _unused_copy(progress: Progress) -> str:
    """Why the redistribution made no use of a copy; empty when it did, or there was none."""
    report = progress.outcome.report if isinstance(progress.outcome, Done) else None
    return (report.uncopied or "") if isinstance(report, RedistributionReport) else ""


def _new_plan(start: StartRescale, now: datetime, ran_on: Collection[str], step: Step) -> Plan:
    commit = start.commit
    return Plan(
        step=step,
        revision=commit.revision,
        restarts=commit.restarts,
        config=dict(commit.config),
        fields=commit.difference.names,
        restore=start.restore,
        ran_on=tuple(sorted(ran_on)),
        begun_at=now,
        step_at=now,
    )


def _ask(progress: Progress, now: datetime) -> Record[Plan] | Poll[Plan]:
    """Asks the next container. An attempt to write has a number that was never used, so it cannot meet any other; a
    redistribution goes on with what was copied, where it can be in the container that copied it."""
    plan, container, unused = progress.plan, progress.candidate, progress.newest_generation + 1
    if container is None:
        return Poll(plan, NOBODY)
    if plan.step is Step.COPY:
        return Record(plan.model_copy(update={"container": container, "generation": unused}))
    if plan.step is Step.AWAIT_STOPPED:
        chosen = plan.container if plan.has_attempt and progress.container_lives else container
        return Record(plan.at(Step.REDISTRIBUTE, now, chosen, plan.generation or unused))
    generation = unused if plan.step is Step.REDISTRIBUTE else plan.generation
    changes = {"container": container, "generation": generation, "losses": plan.losses + 1}
    return Record(plan.model_copy(update=changes))


def _finish(view: JobView, running: Running, plan: Plan, now: datetime) -> Finish[Plan]:
    if plan.generation is None or plan.generation <= running.generation:
        raise IllegalMove(f"{view.job} has no new generation to commit: {plan}")
    seconds = {**plan.seconds_until(now), "total": elapsed(plan.begun_at, now)}
    difference = classify(running.config, plan.config)
    commit = Commit(plan.config, plan.revision, plan.generation, plan.restarts, difference=difference)
    return Finish(plan, commit, seconds)


def _replan(view: JobView, running: Running, plan: Plan, now: datetime) -> RescaleStep:
    """The same redistribution goes on when only the rest of the write is new; another one begins at the stopped job;
    without any the old generation goes on, as it does when another output has to be made first.

    Tasks that still run only take rows again; what else is asked of them is decided once no plan is recorded. A stop
    ends a plan whose tasks still run: they stop at once. While state is copied, see `_while_copying`.
    """
    is_running = plan.step in RUNNING_STEPS
    decision = decide(replace(view, running=replace(running, stopping=True)), now)
    match decision:
        case Commit() as commit if is_running:
            return _taken_back(view, plan, running, commit)
        case StartRescale(commit) | (Commit(then=None) as commit) if _has_other_output(view, plan, commit):
            waits = Wait(f"{INITIALIZE_SINK}: once the job runs again", commit.difference)
            return End(plan, replace(_given_up(view, running), then=waits))
        case StartRescale(commit, restore) if is_running and (restore is not None or not commit.asks_for_tasks):
            return _taken_back(view, plan, running, commit)
        case StartRescale() if plan.step is Step.COPY:
            return _while_copying(view, running, plan, decision, now)
        case StartRescale():
            fresh = _new_plan(decision, now, plan.ran_on, plan.step if is_running else Step.AWAIT_STOPPED)
            if is_running:
                # No more time for tasks that take no more rows already.
                fresh = fresh.model_copy(update={name: getattr(plan, name) for name in _TIMES})
            return Record(_carried_over(plan, fresh) if _same_target(running, plan, fresh) else fresh)
        case Commit(then=None):
            return End(plan, decision)
        case Fail():
            return End(plan, _given_up(view, running), decision)
        case _:
            raise IllegalMove(f"{decision} cannot follow from a change of {plan}")


def _while_copying(view: JobView, running: Running, plan: Plan, start: StartRescale, now: datetime) -> RescaleStep:
    """A copy may take long, so what people wait for does not wait for it. The copy goes on, or begins again for another
    size, for as long as all copies of the plan may take.

    - A restart that a user asked for is committed at once; the plan goes on.
    - Another package or query goes on without the copy, once all tasks run: the job may crash with what it has.
    """
    # A target that changes again and again begins a copy each time: the step began with the first of them.
    kept = {"container": plan.container, "seconds": plan.seconds, "taken_back": plan.taken_back}
    fresh = _new_plan(start, plan.step_at, plan.ran_on, Step.COPY).model_copy(update=kept)
    goes_on = _carried_over(plan, fresh) if _same_target(running, plan, fresh) else fresh
    if is_upgrade(tuple(change.path for change in classify(plan.config, fresh.config).fields)):
        why = "another package or query was asked for meanwhile"
        if view.where.all_run:
            return _quiesced(running, _without_copy(goes_on, why, now))
        return Record(goes_on.model_copy(update={"generation": None, "uncopied": why}), why=str(view.where))
    if view.restarts <= running.restarts:
        return Record(goes_on)
    rollout = restarted(running.rollout, view.restarts)
    return Record(goes_on, replace(_resumed(running), restarts=view.restarts, rollout=rollout))


def _taken_back(view: JobView, plan: Plan, running: Running, commit: Commit) -> End[Plan]:
    """The next round decides about what is asked for now, as of a job without a plan."""
    waits = Wait("stopped" if is_to_stop(view) else "tasks take rows again", commit.difference)
    return End(plan, replace(_given_up(view, running), then=waits))


def _has_other_output(view: JobView, plan: Plan, commit: Commit) -> bool:
    """Whether an output would have to be made that the plan's is not: a job does not stay stopped for that."""
    return awaits_sink(view, commit) and outputs_of(commit.config) != outputs_of(plan.config)


def _same_target(running: Running, plan: Plan, fresh: Plan) -> bool:
    old, new = (classify(running.config, each.config).only(ChangeKind.RESCALE) for each in (plan, fresh))
    same_output = outputs_of(plan.config) == outputs_of(fresh.config)
    return old == new and plan.restore == fresh.restore and (same_output or plan.restore is None)


def _carried_over(plan: Plan, fresh: Plan) -> Plan:
    return plan.model_copy(update={name: getattr(fresh, name) for name in ("revision", "restarts", "config", "fields")})


def _resumed(running: Running) -> Commit:
    """What ran, as it ran: a rollout that a rescale came upon goes on from there."""
    return Commit(running.config, running.revision, running.generation, running.restarts, rollout=running.rollout)


def _given_up(view: JobView, running: Running) -> Commit:
    """What ran goes on, unless the job is to stop."""
    if not is_to_stop(view):
        return _resumed(running)
    return replace(_resumed(running), config=stopped_config(running.config), rollout=None)


def _too_far(view: JobView, plan: Plan, now: datetime) -> str:
    needed, left = view.quiet.seconds_to_goal(now) or 0.0, seconds_left(plan, now)
    told = f"tasks that are behind need about {needed:,.0f} s to read on, and {left:,.0f} s are left"
    return f"{told}; rescale_within_seconds allows more"


def _detour(view: JobView, where: Whereabouts) -> str:
    """How a job is changed that has a task which no container can run: no task of a stopped job is waited for."""
    if not where.missing:
        return ""
    return (
        f"; if no container can run them, `penstock jobs stop {view.job} --wait`, change the job,"
        f" `penstock jobs start {view.job}`"
    )


def _failure(view: JobView, progress: Progress, found: Fact, why: str = "") -> Fail:
    plan = progress.plan
    is_on = plan.container and plan.step not in QUIESCED_STEPS
    told = [f"step {plan.step.value}", *([f"on {plan.container}"] if is_on and found is not Fact.STRANDED else [])]
    match progress.outcome:
        case _ if found is Fact.STRANDED:
            said = f": {view.where}{_detour(view, view.where)}"
        case _ if found is Fact.AWAY_AGAIN:
            said = f": {view.quiet.where}{_detour(view, view.quiet.where)}"
        case _ if found is Fact.UNKNOWN:
            said = f": {'; '.join(map(str, view.silent))}"
        case Failed(reason) | Lost(reason) | Done(CopyReport(unsealable=str() as reason)):
            said = f": {reason}"
        case _ if found in (Fact.LOST, Fact.GIVEN_UP):
            said = ": the container is lost"
        case _:
            said = f": {why or view.quiet}" if plan.step in QUIESCED_STEPS else ""
    ended = (
        "; the job was never stopped" if plan.step in RUNNING_STEPS and MOVES[plan.step, found] is Move.ABORT else ""
    )
    return Fail(f"{' '.join(told)}: {found.value}{said}{ended}", ChangeKind.RESCALE, plan.fields)
