"""The decision of a tick: from what should run and what runs to actions. Pure.

`reconcile` is a fixed point of itself: once its actions have succeeded it returns none.

A task runs when its shard is owned and the lease is good. It is stopped when either ends, when its shard was assigned
anew (another container may have run the task meanwhile), and when a change needs a restart. It is started again only
after it has ended, so no container runs a task twice. Stopping has a deadline. After the deadline the host is killed,
since only that is sure to end a query that does not stop; its other tasks move to another host before (`evacuation`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.model.reports import TaskState
from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.actions import (
    Action,
    AdoptRevision,
    ApplyLive,
    EndHost,
    EvacuateHost,
    KeepHost,
    KeepTask,
    KillHost,
    StopReason,
    StopTask,
)
from services.task_manager.decide.changes import Step, step_between
from services.task_manager.decide.evacuation import bad_hosts, leaving_tasks, movable, wanted_places
from services.task_manager.decide.host_choice import choose_hosts, host_key, missing_warm_hosts, surplus_hosts
from services.task_manager.decide.model import Crash, DesiredTask, HostKey, HostPhase, Limits, Observed, TaskView

HOST_EXIT_SECONDS = 10.0
"""The time for an idle host to end; then it is killed."""
_LATE = {HostPhase.ENDING: "host did not end", HostPhase.LEAVING: "its tasks did not move"}


@dataclass(frozen=True, slots=True)
class Desired:
    """What should run here: tasks by id."""

    tasks: Mapping[str, DesiredTask] = field(default_factory=dict)
    lease_is_good: bool = False


def reconcile(desired: Desired, observed: Observed, limits: Limits, now: float) -> tuple[Action, ...]:
    """The actions that bring what runs closer to what should run, in the order to perform them. `now` is monotonic."""
    bad = {action.host: action for action in bad_hosts(observed, limits, now)}
    bad |= {action.host: action for action in _late_hosts(observed, limits, now)}
    left = _without(observed, bad)
    waiting = [task for task in startable(desired, left) if _may_start(task, left.crashes, now)]
    leaving = leaving_tasks(left, desired.tasks if desired.lease_is_good else {}, now)
    return (
        *bad.values(),
        *_task_actions(desired, observed, limits, now, movable(leaving, waiting, left, limits)),
        *_starts(waiting, left, limits, now, wanted_places(leaving)),
        *_ends(desired, left, limits, now),
    )


# ---- hosts that must be killed or left


def _without(observed: Observed, bad: Mapping[str, EvacuateHost | KeepHost | KillHost]) -> Observed:
    """As it will be: hosts that are killed are gone, those to leave have no room, those to keep have some again."""
    phases = {EvacuateHost: HostPhase.LEAVING, KeepHost: HostPhase.READY}
    hosts = {}
    for name, host in observed.hosts.items():
        action = bad.get(name)
        if not isinstance(action, KillHost):
            hosts[name] = host if action is None else replace(host, phase=phases[type(action)])
    return replace(observed, hosts=hosts)


def _late_hosts(observed: Observed, limits: Limits, now: float) -> Iterator[KillHost]:
    for host in observed.hosts.values():
        if host.phase is HostPhase.STARTING and now - host.since >= limits.host_start_seconds:
            yield KillHost(host.name, "host was not ready in time")
        if now >= host.kill_at:
            yield KillHost(host.name, f"{_LATE.get(host.phase, 'a host task was not done')} in time")


# ---- tasks that run


def _task_actions(
    desired: Desired, observed: Observed, limits: Limits, now: float, moves: Collection[str]
) -> Iterator[Action]:
    """`moves`: the tasks that can leave their host for another one."""
    for task_id, task in sorted(observed.tasks.items()):
        if task.state is TaskState.STOPPING:
            continue
        reason = stop_reason(task, desired, limits, now)
        if reason is None and task.has_deadline:
            yield KeepTask(task_id)
            task = task.without_deadline()
        if reason is None and task_id in moves:
            reason = StopReason.HOST_LEAVES
        if reason is not None:
            yield StopTask(task_id, reason, min(now + _stop_seconds(reason, limits), task.kill_at))
        elif task.state is TaskState.RUNNING:
            yield from _change(task, desired.tasks[task_id].spec)


def stop_reason(task: TaskView, desired: Desired, limits: Limits, now: float) -> StopReason | None:
    """Why a starting or running task must stop; None when it may go on."""
    if not desired.lease_is_good:
        return StopReason.NO_LEASE
    target = desired.tasks.get(task.task_id)
    if target is None or target.refusal is not None or task.lease_ended_at is not None:
        return StopReason.NOT_DESIRED
    if target.epoch != task.epoch:
        return StopReason.NEW_EPOCH
    if task.live_failed or step_between(task.spec, target.spec) is Step.RESTART:
        return StopReason.RESTART
    if task.state is TaskState.STARTING and now - task.since >= limits.start_seconds:
        return StopReason.START_TOOK_TOO_LONG
    return None


def _stop_seconds(reason: StopReason, limits: Limits) -> float:
    return limits.lease_stop_seconds if reason is StopReason.NO_LEASE else limits.stop_seconds


def _change(task: TaskView, target: TaskSpec) -> Iterator[Action]:
    if task.pending_live is not None:
        return
    step = step_between(task.spec, target)
    if step is Step.LIVE:
        yield ApplyLive(task.task_id, target)
    elif step is Step.ADOPT:
        yield AdoptRevision(task.task_id, target)


# ---- tasks and hosts that are missing


def _starts(
    waiting: Iterable[DesiredTask], observed: Observed, limits: Limits, now: float, leaving: Mapping[HostKey, int]
) -> Iterator[Action]:
    starts, new_hosts = choose_hosts(waiting, observed, limits, now, leaving)
    yield from starts
    yield from new_hosts
    yield from missing_warm_hosts(observed, new_hosts, limits, now)


def startable(desired: Desired, observed: Observed) -> Iterator[DesiredTask]:
    """Desired tasks that may run and do not; includes those that back off after a crash."""
    if desired.lease_is_good:
        missing = (task for task_id, task in desired.tasks.items() if task_id not in observed.tasks)
        yield from (task for task in missing if task.refusal is None)


def _may_start(task: DesiredTask, crashes: Mapping[str, Crash], now: float) -> bool:
    crash = crashes.get(task.spec.task_id)
    if crash is None or crash.epoch != task.epoch:
        return True
    if crash.error_kind == "fenced":
        return False
    return now >= crash.retry_at or step_between(crash.spec, task.spec) is Step.RESTART


# ---- hosts that are no longer needed


def _ends(desired: Desired, observed: Observed, limits: Limits, now: float) -> Iterator[Action]:
    needed_keys = {host_key(task.spec) for task in startable(desired, observed)}
    needed_keys |= {host.key for host in observed.hosts.values() if host.phase is HostPhase.LEAVING}
    for name in surplus_hosts(observed, needed_keys, limits, now):
        yield EndHost(name, now + HOST_EXIT_SECONDS)
