"""A new package for a running job, wave by wave: one decision from the recorded rollout and the observed tasks. Pure.

    wave 1 > wave 2 > ... > synced          a wave with a task that is reported as not healthy, or an operator's abort:
                                            > roll_back > the good package, at once

Each wave is committed with its record, in one transaction. Tasks that are not upgraded yet run on unchanged. This
module does not roll back: it records the rejected leaves, and `rollback` asks the Job Service to write the good values.
The next expected configuration then has the good package, so its commit ends the rollout.

Only what was reported speaks against a package. A wave of which too little is known waits, and says so.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from penstock.config.classify import classify
from penstock.config.merge import overlay
from penstock.config.model import ChangeKind
from penstock.tasks.rollout import (
    OrderedRollout,
    RanBefore,
    Rejected,
    RunningRollout,
    code_changes,
    good_values,
    is_upgrade,
    wave_ends,
)
from penstock.tasks.spec import task_id
from services.state_syncer.decide.change import decide, restarted
from services.state_syncer.decide.decisions import (
    Commit,
    End,
    Finish,
    Poll,
    Record,
    RolloutStep,
    StartRescale,
    StartRollout,
    WaveStep,
)
from services.state_syncer.decide.progress import IllegalMove, elapsed
from services.state_syncer.decide.view import Config, JobView, RollingJob, Running
from services.state_syncer.decide.waves import (
    CRASHES_BEFORE_HALT,
    Rolling,
    Rollout,
    RolloutPolicy,
    Stage,
    Trouble,
    crashes_before,
    lateness,
    longest_ill,
    steps_of,
    troubles,
)


class WaveFact(StrEnum):
    """What is found about the present wave."""

    HEALTHY = "its tasks are healthy"
    RUNNING = "its tasks run, not for long enough"
    NOT_RUNNING = "not all of its tasks run, or it is unknown"
    CRASHING = "a task crashes again and again"
    FAILING = "a task does not come to run"
    LATE = "it is not known for too long whether its tasks run"


def continue_rollout(
    view: JobView, running: Running, rolling: Rolling, now: datetime, policy: RolloutPolicy
) -> RolloutStep | StartRescale:
    """The next step of a recorded rollout. Raises IllegalMove."""
    if running.stopping or view.asks_for_more(rolling.plan, running.config):
        return _changed(view, running, rolling.plan, now, policy)
    return carry_on(view, now, policy)


def begin_rollout(view: JobView, start: StartRollout, now: datetime, policy: RolloutPolicy) -> Record[Rollout]:
    """The first wave. What tasks go back to is the last package that was healthy on all of them."""
    running, commit = view.running, start.commit
    if running is None:
        raise IllegalMove(f"{view.job} runs nothing that could get another package")
    difference = commit.difference
    if view.rolling is not None:
        difference = classify(_good(running, view.rolling.plan), commit.config)
    elif running.rollout is not None:
        difference = classify(running.last_whole, commit.config)
    ends = wave_ends(int(commit.config["task_count"]), policy.share)
    plan = Rollout(
        steps=steps_of(ends),
        revision=commit.revision,
        restarts=commit.restarts,
        fields=difference.names,
        leaves=code_changes(difference),
        ends=ends,
        begun_at=now,
        step_at=now,
        goes_back=_is_good_proven(view, running),
    )
    return Record(plan, replace(commit, rollout=_rollout(running, plan, commit)))


def watch_rollout(job: RollingJob, now: datetime, policy: RolloutPolicy) -> WaveStep | None:
    """The next step of a rollout under way, decided without the job's configurations.

    None when the step needs them: something else was asked of the job, or the next wave begins. Raises IllegalMove.
    """
    plan = job.rolling.plan
    if job.changed or job.deleting or job.revision > plan.revision or job.restarts > plan.restarts:
        return None
    step = _watch(job.job, job.generation, job.rolling, now, policy)
    return None if isinstance(step, Rollout) else step


def carry_on(view: JobView, now: datetime, policy: RolloutPolicy) -> WaveStep:
    """The next step of the rollout under way."""
    running, rolling = view.running, view.rolling
    if running is None or rolling is None:
        raise IllegalMove(f"{view.job} has no rollout to go on with")
    step = _watch(view.job, running.generation, rolling, now, policy)
    return _next_wave(running, step, now) if isinstance(step, Rollout) else step


def _watch(job: str, generation: int, recorded: Rolling, now: datetime, policy: RolloutPolicy) -> WaveStep | Rollout:
    """The next step; the rollout itself when its next wave is to begin."""
    if recorded.aborted is not None:
        return _abort(recorded.plan, recorded.aborted, now)
    rolling, found = _looked_at(recorded, generation, now)
    plan = rolling.plan
    fact = wave_fact(rolling, found, now, policy)
    if plan.step is Stage.ROLL_BACK:
        return _stay(recorded, plan, fact, found, now)
    match fact:
        case WaveFact.CRASHING | WaveFact.FAILING:
            return _halt(job, plan, fact, found, now)
        case WaveFact.HEALTHY if recorded.paused is None:
            return Finish(plan) if plan.wave + 1 >= len(plan.ends) else plan
        case _:
            return _stay(recorded, plan, fact, found, now)


def _looked_at(recorded: Rolling, generation: int, now: datetime) -> tuple[Rolling, tuple[Trouble, ...]]:
    """The rollout with what is now seen of its tasks noted in its plan, and their troubles."""
    crashes, plan = crashes_before(recorded), recorded.plan
    if crashes != plan.crashes:
        plan = plan.model_copy(update={"crashes": crashes})
    found = tuple(troubles(replace(recorded, plan=plan), generation))
    ill, ill_since = longest_ill(plan, found, now)
    if plan.step is Stage.WAVE and (ill, ill_since) != (plan.ill, plan.ill_since):
        plan = plan.model_copy(update={"ill": ill, "ill_since": ill_since})
    return (recorded if plan is recorded.plan else replace(recorded, plan=plan)), found


def wave_fact(rolling: Rolling, found: tuple[Trouble, ...], now: datetime, policy: RolloutPolicy) -> WaveFact:
    """What is found about the wave. Unknown is neither healthy nor unhealthy, however long it lasts."""
    plan = rolling.plan
    if any(trouble.crashes >= CRASHES_BEFORE_HALT for trouble in found):
        return WaveFact.CRASHING
    if not found:
        return WaveFact.HEALTHY if _has_proved_itself(rolling, now, policy) else WaveFact.RUNNING
    if plan.ill_since is not None and elapsed(plan.ill_since, now) >= policy.unhealthy_seconds:
        return WaveFact.FAILING
    is_late = elapsed(plan.step_at, now) >= policy.unhealthy_seconds
    return WaveFact.LATE if is_late else WaveFact.NOT_RUNNING


def _has_proved_itself(rolling: Rolling, now: datetime, policy: RolloutPolicy) -> bool:
    plan = rolling.plan
    ran = plan.well_since is not None and elapsed(plan.well_since, now) >= policy.healthy_seconds
    return ran or all(rolling.tasks[index].has_worked for index in range(plan.upgraded))


def _stay(
    recorded: Rolling, plan: Rollout, fact: WaveFact, found: tuple[Trouble, ...], now: datetime
) -> Record[Rollout] | Poll[Rollout]:
    if plan.step is Stage.WAVE:
        runs = fact in (WaveFact.RUNNING, WaveFact.HEALTHY)
        seen = {"well_since": plan.well_since or now if runs else None, "late": ""}
        if fact is WaveFact.LATE:
            seen["late"] = lateness(plan, found)
        if seen != {name: getattr(plan, name) for name in seen}:
            plan = plan.model_copy(update=seen)
    if plan is not recorded.plan:
        return Record(plan)
    return Poll(plan, _why(recorded, found))


def _why(recorded: Rolling, found: tuple[Trouble, ...]) -> str:
    """Why the rollout does not go on."""
    if recorded.paused is not None:
        return f"paused by {recorded.paused.author}: {recorded.paused.reason}"
    if recorded.plan.late:
        return ""
    return f"waiting for {f'task {found[0].index}: {found[0].why}' if found else 'a batch of each of its tasks'}"


def _next_wave(running: Running, plan: Rollout, now: datetime) -> Record[Rollout]:
    later = plan.again(now, wave=plan.wave + 1)
    commit = Commit(running.config, running.revision, running.generation, running.restarts)
    return Record(later, replace(commit, rollout=_rollout(running, later, commit)))


def _halt(job: str, plan: Rollout, fact: WaveFact, found: tuple[Trouble, ...], now: datetime) -> Record[Rollout]:
    worst = max(found, key=lambda trouble: (trouble.crashes, trouble.index == plan.ill))
    task = task_id(job, worst.index)
    why = f"{fact.value}: {task}: {worst.why}"
    return Record(plan.again(now, step=Stage.ROLL_BACK, why=why), rejected=_rejected(plan, task, worst.why))


def _abort(plan: Rollout, order: OrderedRollout, now: datetime) -> Record[Rollout]:
    """As a halt, and also where the package before has never worked: an operator asks for it."""
    why = f"aborted by {order.author}: {order.reason}"
    aborted = plan.again(now, step=Stage.ROLL_BACK, why=why, goes_back=True)
    return Record(aborted, rejected=_rejected(aborted, None, why))


def _rejected(plan: Rollout, task: str | None, error: str) -> Rejected:
    return Rejected(
        revision=plan.revision,
        leaves=plan.leaves,
        wave=plan.wave + 1,
        waves=len(plan.ends),
        task=task,
        error=error,
        goes_back=plan.goes_back,
    )


# ---- writes that come meanwhile


def _changed(
    view: JobView, running: Running, plan: Rollout, now: datetime, policy: RolloutPolicy
) -> RolloutStep | StartRescale:
    """A write that cannot be carried out now, for whatever reason, is left until the rollout has ended."""
    match decide(view, now):
        case StartRescale(commit) as start:
            # It would bring the package to all tasks: a rejected one is taken back first, and a paused one waits.
            waits = _is_held_back(view, plan) and _same_package(running.config, commit.config)
            return carry_on(view, now, policy) if waits else start
        case StartRollout(commit) | (Commit(then=None) as commit):
            stops = running.stopping or not commit.asks_for_tasks
            if stops or _same_package(_good(running, plan), commit.config):
                return End(plan, commit)
            if _same_package(running.config, commit.config):
                return _go_along(running, plan, commit, now)
            return begin_rollout(view, StartRollout(commit), now, policy)
        case Commit(asks_for_tasks=False) as stop:
            return End(plan, stop)
        case Commit() as restart:
            return Record(plan.again(now, restarts=restart.restarts), restart)
        case _:
            return carry_on(view, now, policy)


def _is_held_back(view: JobView, plan: Rollout) -> bool:
    """Whether the package must not go out to further tasks."""
    rolling = view.rolling
    is_ordered = rolling is not None and (rolling.paused is not None or rolling.aborted is not None)
    return plan.step is Stage.ROLL_BACK or is_ordered


def _go_along(running: Running, plan: Rollout, commit: Commit, now: datetime) -> Record[Rollout]:
    """Tasks that are not upgraded get the write with their wave; a restart that was asked for they get now."""
    leaves = code_changes(classify(_good(running, plan), commit.config))
    changes = {"revision": commit.revision, "restarts": commit.restarts, "leaves": leaves}
    is_restart = commit.difference.kind >= ChangeKind.RESTART or commit.restarts > running.restarts
    moved = plan.again(now, **changes) if is_restart else plan.model_copy(update=changes)
    rollout = restarted(running.rollout, commit.restarts)
    if rollout is not None:
        rollout = rollout.model_copy(update={"revision": commit.revision})
    return Record(moved, replace(commit, rollout=rollout))


def _good(running: Running, plan: Rollout) -> Config:
    """What runs, with the package and the query that all tasks were healthy with."""
    return overlay(running.config, good_values(plan.leaves))


def _is_good_proven(view: JobView, running: Running) -> bool:
    """Whether a task has ever worked with the package to go back to."""
    return running.is_proven if view.rolling is None else view.rolling.plan.goes_back


def _same_package(one: Config, other: Config) -> bool:
    return not is_upgrade(tuple(change.path for change in classify(one, other).fields))


def _rollout(running: Running, plan: Rollout, commit: Commit) -> RunningRollout | None:
    if plan.upgraded >= int(commit.config["task_count"]):
        return None
    if running.rollout is None:
        before = RanBefore(config=dict(running.config), revision=running.revision, restarts=commit.restarts)
    else:
        before = running.rollout.before.model_copy(update={"restarts": commit.restarts})
    return RunningRollout(revision=commit.revision, upgraded=plan.upgraded, before=before)
