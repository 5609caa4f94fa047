"""Hosts with a task that does not stop, and hosts whose JVM hangs: the tasks move to another host before such a host is
killed. Pure.

A host first asks its query to end, then interrupts it again and again (`penstock.spark.task`). Only a query that
survives this until its deadline costs the host. The host then gets no more work, and a fresh one starts beside it. Its
other tasks stop as soon as they have a place there. The host is killed once only such queries are left on it, or when
the time for the move is over. Tasks that have not started yet do not count: what keeps the query may keep them, too,
and they lose nothing. If the query ends after all, the host stays.

A shard that was dropped has no other owner until its task has ended. So for such a task the move has less time. The end
of the lease waits for nothing: after its deadline the host is killed at once.

A host sends the progress of its tasks every second, as its JVM tells it. When nothing came for a minute the JVM hangs:
its tasks do not run, and no other host may run them. They are told to stop once they have a place elsewhere. As the
answers do not come either, the host is killed at their deadline. When several hosts are silent, the machine may be to
blame, so they are left one after the other. A host that is heard again stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from penstock.model.reports import TaskState
from services.task_manager.decide.actions import EvacuateHost, KeepHost, KillHost
from services.task_manager.decide.host_choice import host_key, importance_of, places
from services.task_manager.decide.model import DesiredTask, HostKey, HostPhase, HostView, Limits, Observed, TaskView


def is_overdue(task: TaskView, now: float) -> bool:
    """Whether a task did not stop by its deadline."""
    return task.state is TaskState.STOPPING and now >= task.kill_at


def bad_hosts(observed: Observed, limits: Limits, now: float) -> Iterator[EvacuateHost | KeepHost | KillHost]:
    """What becomes of hosts with overdue tasks, of the one that hangs longest, and of those that were such hosts."""
    by_host: dict[str, list[TaskView]] = {}
    for task in observed.tasks.values():
        by_host.setdefault(task.host, []).append(task)
    hanging = {name: host for name, host in observed.hosts.items() if _hangs(host, limits, now)}
    longest = min(hanging, key=lambda name: (hanging[name].heard_at, name), default=None)
    for name, host in observed.hosts.items():
        tasks = by_host.get(name, [])
        overdue = [task for task in tasks if is_overdue(task, now)]
        if overdue:
            why = f"{min(task.task_id for task in overdue)} did not stop in time"
            begun = [task for task in tasks if task.state is not TaskState.STARTING]
            if len(overdue) == len(begun) or any(_must_end(task, limits, now) for task in overdue):
                yield KillHost(name, why)
            elif host.phase is HostPhase.READY:
                yield EvacuateHost(name, why, now + limits.evacuate_seconds)
        elif name == longest:
            yield from _leave_hanging(host, tasks, limits, now)
        elif host.phase is HostPhase.LEAVING and name not in hanging:
            yield KeepHost(name)


def _hangs(host: HostView, limits: Limits, now: float) -> bool:
    return host.silent_seconds(now) >= limits.host_hung_seconds


def _leave_hanging(
    host: HostView, tasks: Collection[TaskView], limits: Limits, now: float
) -> Iterator[EvacuateHost | KillHost]:
    why = f"its JVM has said nothing for {limits.host_hung_seconds:g} s"
    if not tasks:
        yield KillHost(host.name, why)
    elif host.phase is HostPhase.READY:
        yield EvacuateHost(host.name, why, now + limits.evacuate_seconds)


def _must_end(task: TaskView, limits: Limits, now: float) -> bool:
    """Whether a task must not run on, whatever it costs its neighbours."""
    outlives_lease = task.lease_ended_at is not None and now >= task.lease_ended_at + limits.lease_stop_seconds
    return outlives_lease or now >= task.dropped_until


def leaving_tasks(observed: Observed, desired: Mapping[str, DesiredTask], now: float) -> list[TaskView]:
    """The tasks that go on elsewhere and are still on hosts that will be killed; the important ones first."""
    leaving = {name for name, host in observed.hosts.items() if host.phase is HostPhase.LEAVING}
    if not leaving:
        return []
    tasks = [task for task in observed.tasks.values() if task.host in leaving and task.task_id in desired]
    return sorted((task for task in tasks if not is_overdue(task, now)), key=lambda task: importance_of(task.spec))


def wanted_places(tasks: Iterable[TaskView]) -> Counter[HostKey]:
    """How many places these tasks need on other hosts, by key."""
    return Counter(host_key(task.spec) for task in tasks)


def movable(
    leaving: Iterable[TaskView], waiting: Iterable[DesiredTask], observed: Observed, limits: Limits
) -> frozenset[str]:
    """The running tasks that have a place on another host, beside the tasks that wait for one already."""
    taken = Counter(host_key(task.spec) for task in waiting)
    found = set()
    for task in leaving:
        key = host_key(task.spec)
        taken[key] += 1
        if taken[key] <= places(key, observed, limits) and task.state is TaskState.RUNNING:
            found.add(task.task_id)
    return frozenset(found)
