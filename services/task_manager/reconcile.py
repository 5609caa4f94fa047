"""From what should run and what runs to actions. Pure, and a fixed point of itself: once its actions have succeeded
it asks for nothing.

A task runs when its shard is owned and the lease is good. It is stopped when either is no longer so, when its shard
was assigned anew (another container may have run it in between), and when a change needs a restart; it is started
again only after it has ended, so no container ever runs a task twice. Stopping has a deadline: then the host is
killed, with all that runs on it, since that is the only sure way to end a query that does not stop.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import TaskState
from services.task_manager.actions import (
    Action,
    AdoptRevision,
    ApplyLive,
    EndHost,
    KillHost,
    StopReason,
    StopTask,
)
from services.task_manager.changes import Step, step_between
from services.task_manager.model import (
    Crash,
    HostFailure,
    HostKey,
    HostPhase,
    HostView,
    Limits,
    TaskView,
    WantedTask,
)
from services.task_manager.placement import host_key, place, surplus, warm_hosts


@dataclass(frozen=True, slots=True)
class Wanted:
    """What should run here. `deadlines` says for shards that were given up when their tasks' hosts are killed."""

    tasks: Mapping[str, WantedTask] = field(default_factory=dict)
    lease_is_good: bool = False
    deadlines: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """What is here: tasks and crashes by task id, hosts by name, failed host starts by key."""

    tasks: Mapping[str, TaskView] = field(default_factory=dict)
    hosts: Mapping[str, HostView] = field(default_factory=dict)
    crashes: Mapping[str, Crash] = field(default_factory=dict)
    host_failures: Mapping[HostKey, HostFailure] = field(default_factory=dict)

    def copy(self) -> Running:
        """The same, unaffected by later changes of the maps."""
        return Running(dict(self.tasks), dict(self.hosts), dict(self.crashes), dict(self.host_failures))


def reconcile(wanted: Wanted, running: Running, limits: Limits, now: float) -> tuple[Action, ...]:
    """The actions that bring what runs nearer to what should, in the order to perform them. `now` is monotonic."""
    overdue = dict(_overdue_hosts(wanted, running, limits, now))
    return (
        *(KillHost(host, reason) for host, reason in overdue.items()),
        *_task_actions(wanted, running, limits, now),
        *_starts(wanted, running, limits, now, set(overdue)),
        *_ends(wanted, running, limits, now, set(overdue)),
    )


# ---- hosts that must be killed


def _overdue_hosts(wanted: Wanted, running: Running, limits: Limits, now: float) -> Iterator[tuple[str, str]]:
    for task in running.tasks.values():
        if now >= _kill_at(task, wanted):
            yield task.host, f"{task.task_id} did not stop in time"
    for host in running.hosts.values():
        if host.phase is HostPhase.STARTING and now - host.since >= limits.host_start_seconds:
            yield host.name, "host was not ready in time"
        if host.kill_at is not None and now >= host.kill_at:
            yield host.name, "host did not end in time"


def _kill_at(task: TaskView, wanted: Wanted) -> float:
    if task.state is not TaskState.STOPPING or task.kill_at is None:
        return math.inf
    return min(task.kill_at, wanted.deadlines.get(task.shard, math.inf))


# ---- tasks that run


def _task_actions(wanted: Wanted, running: Running, limits: Limits, now: float) -> Iterator[Action]:
    for task_id, task in sorted(running.tasks.items()):
        if task.state is TaskState.STOPPING:
            yield from _hurry(task, wanted)
            continue
        reason = stop_reason(task, wanted, limits, now)
        if reason is not None:
            deadline = min(now + _stop_seconds(reason, limits), wanted.deadlines.get(task.shard, math.inf))
            yield StopTask(task_id, reason, deadline)
        elif task.state is TaskState.RUNNING:
            yield from _change(task, wanted.tasks[task_id].spec)


def stop_reason(task: TaskView, wanted: Wanted, limits: Limits, now: float) -> StopReason | None:
    """Why a starting or running task must stop; None when it may go on."""
    if not wanted.lease_is_good:
        return StopReason.NO_LEASE
    target = wanted.tasks.get(task.task_id)
    if target is None or target.refusal is not None or task.lease_ended_at is not None:
        return StopReason.NOT_WANTED
    if target.epoch != task.epoch:
        return StopReason.NEW_EPOCH
    if task.live_failed or step_between(task.spec, target.spec) is Step.RESTART:
        return StopReason.RESTART
    if task.state is TaskState.STARTING and now - task.since >= limits.start_seconds:
        return StopReason.START_TOOK_TOO_LONG
    return None


def _stop_seconds(reason: StopReason, limits: Limits) -> float:
    return limits.lease_stop_seconds if reason is StopReason.NO_LEASE else limits.stop_seconds


def _hurry(task: TaskView, wanted: Wanted) -> Iterator[Action]:
    """A task that is stopping gets an earlier deadline when its shard was given up meanwhile."""
    deadline = wanted.deadlines.get(task.shard, math.inf)
    if task.kill_at is not None and deadline < task.kill_at:
        yield StopTask(task.task_id, StopReason.NOT_WANTED, deadline)


def _change(task: TaskView, target: TaskSpec) -> Iterator[Action]:
    if task.pending_live is not None:
        return
    step = step_between(task.spec, target)
    if step is Step.LIVE:
        yield ApplyLive(task.task_id, target)
    elif step is Step.ADOPT:
        yield AdoptRevision(task.task_id, target)


# ---- tasks and hosts that are missing


def _starts(wanted: Wanted, running: Running, limits: Limits, now: float, overdue: set[str]) -> Iterator[Action]:
    hosts = [host for name, host in running.hosts.items() if name not in overdue]
    load = Counter(task.host for task in running.tasks.values())
    waiting = [task for task in startable(wanted, running) if _may_start(task, running.crashes, now)]
    starts, new_hosts = place(waiting, hosts, load, running.host_failures, limits, now)
    yield from starts
    yield from new_hosts
    yield from warm_hosts(hosts, new_hosts, running.host_failures, limits, now)


def startable(wanted: Wanted, running: Running) -> Iterator[WantedTask]:
    """Wanted tasks that may run and of which nothing runs, back-off aside."""
    if wanted.lease_is_good:
        missing = (task for task_id, task in wanted.tasks.items() if task_id not in running.tasks)
        yield from (task for task in missing if task.refusal is None)


def _may_start(task: WantedTask, crashes: Mapping[str, Crash], now: float) -> bool:
    crash = crashes.get(task.spec.task_id)
    if crash is None or crash.epoch != task.epoch:
        return True
    if crash.error_kind == "fenced":
        return False
    return now >= crash.retry_at or step_between(crash.spec, task.spec) is Step.RESTART


# ---- hosts that are no longer needed


def _ends(wanted: Wanted, running: Running, limits: Limits, now: float, overdue: set[str]) -> Iterator[Action]:
    hosts = [host for name, host in running.hosts.items() if name not in overdue]
    wanted_keys = {host_key(task.spec) for task in startable(wanted, running)}
    for name in surplus(hosts, wanted_keys, limits, now):
        yield EndHost(name, now + limits.host_exit_seconds)
