"""A new package for a job that runs, wave by wave: from what is recorded and what is seen to one decision. Pure.

    wave 1 > wave 2 > ... > synced          a wave that is not healthy: > roll_back > the good package, at once

Each wave is committed with its record, in one transaction. Nothing is stopped: tasks that are not upgraded run what
they ran. Going back is not done here: the rejected leaves are recorded, `rollbacks` has the Job Service write the good
values, and the expected configuration that follows ends the rollout as any other that has the good package does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.tasks.rollout import (
    RanBefore,
    Rejected,
    RunningRollout,
    code_changes,
    is_upgrade,
    wave_ends,
)
from penstock.tasks.spec import task_id
from services.state_syncer.diff import Config
from services.state_syncer.moves import IllegalMove, PlanDecision
from services.state_syncer.plan import (
    Begin,
    Commit,
    Decision,
    JobView,
    Running,
    SyncRecord,
    SyncState,
    Upgrade,
    decide,
    field_names,
    next_record,
    restarted,
)
from services.state_syncer.progress import elapsed
from services.state_syncer.rescale import next_decision
from services.state_syncer.waves import (
    CRASHES_BEFORE_HALT,
    Rolling,
    Rollout,
    RolloutPolicy,
    Stage,
    Trouble,
    crashes_before,
    steps_of,
    troubles,
)


class WaveFact(StrEnum):
    """What is found about the present wave."""

    HEALTHY = "its tasks are healthy"
    WELL = "its tasks run, not for long enough"
    NOT_WELL = "not all of its tasks run, or it is unknown"
    CRASHING = "a task crashes again and again"
    LATE = "it takes too long"


class WaveMove(StrEnum):
    """What is done about it."""

    STAY = "stay"
    NEXT = "next"
    HALT = "halt"


WAVE_MOVES: Mapping[tuple[Stage, WaveFact], WaveMove] = {
    (Stage.WAVE, WaveFact.HEALTHY): WaveMove.NEXT,
    (Stage.WAVE, WaveFact.WELL): WaveMove.STAY,
    (Stage.WAVE, WaveFact.NOT_WELL): WaveMove.STAY,
    (Stage.WAVE, WaveFact.CRASHING): WaveMove.HALT,
    (Stage.WAVE, WaveFact.LATE): WaveMove.HALT,
} | {(Stage.HALTED, fact): WaveMove.STAY for fact in WaveFact}
"""The legal moves while the expected configuration is what goes out."""


# ---- decisions


@dataclass(frozen=True, slots=True)
class Roll:
    """Record the plan and commit the wave."""

    plan: Rollout
    commit: Commit


@dataclass(frozen=True, slots=True)
class Note:
    """Record what was seen."""

    plan: Rollout


@dataclass(frozen=True, slots=True)
class Stay:
    """Look again. `waits_for`: what."""

    plan: Rollout
    waits_for: str


@dataclass(frozen=True, slots=True)
class Settle:
    """All tasks run the package and are healthy: end the plan."""

    plan: Rollout


@dataclass(frozen=True, slots=True)
class Halt:
    """Record that the package is rejected."""

    plan: Rollout
    rejected: Rejected


@dataclass(frozen=True, slots=True)
class End:
    """End the plan with a commit of the whole."""

    plan: Rollout
    commit: Commit


RolloutDecision = Roll | Note | Stay | Settle | Halt | End


def next_step(view: JobView, now: datetime, policy: RolloutPolicy) -> Decision | PlanDecision | RolloutDecision:
    """The one next step for a job, with or without a plan of whatever kind. A deletion goes first."""
    if view.rolling is None or view.running is None or view.deleting:
        return next_decision(view, now)
    if _is_changed(view, view.running, view.rolling.plan):
        return _changed(view, view.running, view.rolling, now, policy)
    return carry_on(view, now, policy)


def begin_rollout(view: JobView, upgrade: Upgrade, now: datetime, policy: RolloutPolicy) -> Roll:
    """The first wave. What tasks go back to is the last package that was healthy on all of them."""
    running, commit = view.running, upgrade.commit
    if running is None:
        raise IllegalMove(f"{view.job} runs nothing that could be upgraded")
    difference = commit.difference
    if view.rolling is not None:
        difference = classify(_good(running, view.rolling.plan), commit.config)
    elif running.rollout is not None:
        difference = classify(running.settled, commit.config)
    whole = first_wave(int(commit.config["task_count"]), field_names(difference), now, policy)
    changes = {"revision": commit.revision, "restarts": commit.restarts, "leaves": code_changes(difference)}
    plan = whole.model_copy(update=changes)
    return Roll(plan, replace(commit, rollout=_rollout(running, plan, commit)))


def first_wave(task_count: int, fields: tuple[str, ...], now: datetime, policy: RolloutPolicy) -> Rollout:
    """The record of a rollout that begins, but for what depends on the job: `revision`, `restarts` and `leaves`."""
    ends = wave_ends(task_count, policy.share)
    return Rollout(
        steps=steps_of(ends), revision=0, restarts=0, fields=fields, leaves=(), ends=ends, begun_at=now, step_at=now
    )


def carry_on(view: JobView, now: datetime, policy: RolloutPolicy) -> RolloutDecision:
    """The next step with what goes out already."""
    running, rolling = view.running, view.rolling
    if running is None or rolling is None:
        raise IllegalMove(f"{view.job} has no rollout to go on with")
    rolling = replace(rolling, plan=rolling.plan.model_copy(update={"crashes": crashes_before(rolling)}))
    plan, found = rolling.plan, tuple(troubles(rolling, running.generation))
    fact = wave_fact(rolling, found, now, policy)
    match WAVE_MOVES.get((plan.step, fact)):
        case WaveMove.STAY:
            return _stay(view.rolling, plan, fact, found, now)
        case WaveMove.NEXT:
            return _next_wave(running, plan, now)
        case WaveMove.HALT:
            return _halt(view, plan, fact, found, now)
        case _:
            raise IllegalMove(f"{fact.name} cannot be found in {plan.step}: {plan}")


def wave_fact(rolling: Rolling, found: tuple[Trouble, ...], now: datetime, policy: RolloutPolicy) -> WaveFact:
    """What is found about the wave: unknown is never healthy, nor is it unhealthy before the time is out."""
    plan = rolling.plan
    if any(trouble.crashes >= CRASHES_BEFORE_HALT for trouble in found):
        return WaveFact.CRASHING
    if not found and _has_proved_itself(rolling, now, policy):
        return WaveFact.HEALTHY
    if elapsed(plan.step_at, now) >= policy.unhealthy_seconds:
        return WaveFact.LATE
    return WaveFact.NOT_WELL if found else WaveFact.WELL


def _has_proved_itself(rolling: Rolling, now: datetime, policy: RolloutPolicy) -> bool:
    plan = rolling.plan
    ran = plan.well_since is not None and elapsed(plan.well_since, now) >= policy.healthy_seconds
    return ran or all(rolling.tasks[index].has_worked for index in range(plan.upgraded))


def _stay(
    recorded: Rolling | None, plan: Rollout, fact: WaveFact, found: tuple[Trouble, ...], now: datetime
) -> Note | Stay:
    if plan.step is Stage.WAVE:
        well_since = None if fact is not WaveFact.WELL else plan.well_since or now
        plan = plan.model_copy(update={"well_since": well_since})
    if recorded is None or plan != recorded.plan:
        return Note(plan)
    waits_for = f"task {found[0].index}: {found[0].why}" if found else "a batch of each of its tasks"
    return Stay(plan, waits_for)


def _next_wave(running: Running, plan: Rollout, now: datetime) -> Roll | Settle:
    if plan.wave + 1 >= len(plan.ends):
        return Settle(plan)
    later = plan.again(now, wave=plan.wave + 1)
    commit = Commit(running.config, running.revision, running.generation, running.restarts)
    return Roll(later, replace(commit, rollout=_rollout(running, later, commit)))


def _halt(view: JobView, plan: Rollout, fact: WaveFact, found: tuple[Trouble, ...], now: datetime) -> Halt:
    worst = max(found, key=lambda trouble: trouble.crashes, default=None)
    error = fact.value if worst is None else worst.why
    task = None if worst is None else task_id(view.job, worst.index)
    rejected = Rejected(
        revision=plan.revision, leaves=plan.leaves, wave=plan.wave + 1, waves=len(plan.ends), task=task, error=error
    )
    why = f"{fact.value}: {error if task is None else f'{task}: {error}'}"
    return Halt(plan.again(now, step=Stage.HALTED, why=why), rejected)


# ---- writes that come meanwhile


def _is_changed(view: JobView, running: Running, plan: Rollout) -> bool:
    return (
        view.revision > plan.revision
        or view.restarts > plan.restarts
        or view.expected != running.config
        or view.restore is not None
        or running.stopping
    )


def _changed(
    view: JobView, running: Running, rolling: Rolling, now: datetime, policy: RolloutPolicy
) -> RolloutDecision | Begin:
    """A write that cannot be carried out now, for whatever reason, is left until the rollout has ended."""
    decision = decide(view, now)
    match decision:
        case Begin(config) if rolling.plan.step is Stage.HALTED and _same_package(running.config, config):
            # It would bring a rejected package to all tasks: the good one comes first.
            return carry_on(view, now, policy)
        case Begin():
            return decision
        case Commit(then=None):
            return _take(view, running, rolling, decision, now)
        case Commit():
            return Roll(rolling.plan.again(now, restarts=decision.restarts), decision)
        case Upgrade(commit) if _is_good(running, rolling.plan, commit.config):
            return End(rolling.plan, commit)
        case Upgrade(commit) if _same_package(running.config, commit.config):
            return _go_along(running, rolling.plan, commit, now)
        case Upgrade():
            return begin_rollout(view, decision, now, policy)
        case _:
            return carry_on(view, now, policy)


def _take(view: JobView, running: Running, rolling: Rolling, commit: Commit, now: datetime) -> Roll | End:
    """No upgrade of what all tasks ran: the job stops, its release is taken back, or the last wave is under way."""
    goes_on = commit.asks_for_tasks and not running.stopping
    if goes_on and running.rollout is None and _same_package(running.config, commit.config):
        return _go_along(running, rolling.plan, commit, now)
    return End(rolling.plan, commit)


def _go_along(running: Running, plan: Rollout, commit: Commit, now: datetime) -> Roll:
    """Tasks that are not upgraded get the write with their wave; a restart that was asked for they get now."""
    leaves = code_changes(classify(_good(running, plan), commit.config))
    changes = {"revision": commit.revision, "restarts": commit.restarts, "leaves": leaves}
    is_restart = commit.difference.kind >= ChangeKind.RESTART or commit.restarts > running.restarts
    moved = plan.again(now, **changes) if is_restart else plan.model_copy(update=changes)
    rollout = restarted(running.rollout, commit.restarts)
    if rollout is not None:
        rollout = rollout.model_copy(update={"revision": commit.revision})
    return Roll(moved, replace(commit, rollout=rollout))


def _is_good(running: Running, plan: Rollout, config: Config) -> bool:
    return _same_package(_good(running, plan), config)


def _good(running: Running, plan: Rollout) -> Config:
    """What runs, with the package and the query that all tasks were healthy with."""
    config = dict(running.config)
    for leaf in plan.leaves:
        group, name = leaf.path
        config[group] = {**config[group], name: leaf.old}
    return config


def _same_package(one: Config, other: Config) -> bool:
    return not is_upgrade(tuple(change.path for change in classify(one, other).fields))


def _rollout(running: Running, plan: Rollout, commit: Commit) -> RunningRollout | None:
    if plan.upgraded >= int(commit.config["task_count"]):
        return None
    before = RanBefore(config=dict(running.config), revision=running.revision, restarts=commit.restarts)
    if running.rollout is not None:
        before = running.rollout.before.model_copy(update={"restarts": commit.restarts})
    return RunningRollout(revision=commit.revision, upgraded=plan.upgraded, before=before)


# ---- what is told


def record_of_rollout(view: JobView, decision: RolloutDecision, now: datetime) -> SyncRecord | None:
    """The sync state that a decision leads to."""
    plan = decision.plan
    match decision:
        case End(_, commit):
            return next_record(view, commit, now)
        case Settle():
            return SyncRecord(SyncState.SYNCED, plan.revision, kind=ChangeKind.RESTART, fields=plan.fields)
        case Stay(_, waits_for):
            detail = describe(plan, waits_for)
        case _:
            detail = describe(plan)
    failures = view.failures_since(plan.revision)
    return SyncRecord(SyncState.ROLLING, plan.revision, detail, ChangeKind.RESTART, plan.fields, failures)


def describe(plan: Rollout, waits_for: str = "") -> str:
    """How far a rollout is, for people."""
    where = f"wave {plan.wave + 1} of {len(plan.ends)}, {plan.upgraded} of {plan.ends[-1]} tasks upgraded"
    if plan.step is Stage.HALTED:
        return f"rolling back from {where}: {plan.why}"
    return f"{where}{f', waiting for {waits_for}' if waits_for else ''}"
