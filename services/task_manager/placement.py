"""Which host a task runs on, and which hosts are needed. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from penstock.config.model import JobConfig
from penstock.tasks.spec import TaskSpec
from services.task_manager.actions import StartHost, StartTask
from services.task_manager.model import HostFailure, HostKey, HostPhase, HostView, Limits, WantedTask

DEFAULT_KEY = HostKey(package=("builtin", "0", ""))
_SESSION_PREFIX = "spark.sql."


def host_key(spec: TaskSpec) -> HostKey:
    """What a host must be to run this task."""
    config = spec.config
    package = config.package
    isolated = config.isolation == "process"
    return HostKey(
        package=(package.name, package.version, package.digest or ""),
        static_settings=tuple(sorted(static_settings(config).items())),
        isolated_task=spec.task_id if isolated else "",
        memory_bytes=config.resources.memory_bytes if isolated else 0,
    )


def static_settings(config: JobConfig) -> dict[str, str]:
    """The job's Spark settings that belong to a whole host; those of `spark.sql` belong to a task's session."""
    return {name: value for name, value in config.spark_settings.items() if not name.startswith(_SESSION_PREFIX)}


def place(
    waiting: Iterable[WantedTask],
    hosts: Sequence[HostView],
    load: Mapping[str, int],
    failures: Mapping[HostKey, HostFailure],
    limits: Limits,
    now: float,
) -> tuple[list[StartTask], list[StartHost]]:
    """Tasks onto ready hosts with room, fullest first; new hosts for the rest, less those that are starting.

    `load` is the number of tasks by host. Fullest first keeps few hosts busy, so that the others can end. Important
    tasks come first: a host carries commands out in order, few at a time, so each gets its most important ones first.
    """
    by_key: dict[HostKey, list[WantedTask]] = defaultdict(list)
    ordered = sorted(waiting, key=importance)
    for task in ordered:
        by_key[host_key(task.spec)].append(task)
    hosts_of: dict[str, str] = {}
    new_hosts: list[StartHost] = []
    for key, tasks in by_key.items():
        room = _room(key, hosts, load, limits)
        given = _in_turns(room[: len(tasks)])
        hosts_of |= {task.spec.task_id: host for task, host in zip(tasks, given, strict=False)}
        if may_start(key, failures, now):
            new_hosts += [StartHost(key)] * _missing_hosts(key, len(tasks) - len(room), hosts, limits)
    starts = [
        StartTask(task.spec, task.shard, task.epoch, hosts_of[task.spec.task_id])
        for task in ordered
        if task.spec.task_id in hosts_of
    ]
    return starts, new_hosts


def importance(task: WantedTask) -> tuple[int, str]:
    """Sorts the most important tasks first: by their job's priority, those of one priority by id."""
    return (-task.spec.config.priority, task.spec.task_id)


def warm_hosts(
    hosts: Sequence[HostView],
    asked_for: Sequence[StartHost],
    failures: Mapping[HostKey, HostFailure],
    limits: Limits,
    now: float,
) -> list[StartHost]:
    """Hosts of the default key that are missing to the number to be kept warm, whatever runs on them."""
    if not may_start(DEFAULT_KEY, failures, now):
        return []
    present = sum(host.key == DEFAULT_KEY and host.phase is not HostPhase.ENDING for host in hosts)
    coming = sum(action.key == DEFAULT_KEY for action in asked_for)
    return [StartHost(DEFAULT_KEY)] * (limits.warm_hosts - present - coming)


def surplus(hosts: Sequence[HostView], wanted_keys: set[HostKey], limits: Limits, now: float) -> list[str]:
    """Idle hosts that may end: isolated ones that nobody wants, others idle for long, never the warm."""
    lasting = Counter(host.key for host in hosts if host.phase is not HostPhase.ENDING)
    ending: list[str] = []
    for host in sorted(hosts, key=lambda host: host.name, reverse=True):
        if host.phase is not HostPhase.READY or host.idle_since is None:
            continue
        keep = limits.warm_hosts if host.key == DEFAULT_KEY else 0
        if lasting[host.key] > keep and _outlived(host, wanted_keys, limits, now):
            lasting[host.key] -= 1
            ending.append(host.name)
    return ending


def may_start(key: HostKey, failures: Mapping[HostKey, HostFailure], now: float) -> bool:
    """Whether no failed start of such a host holds the next one back."""
    return key not in failures or now >= failures[key].retry_at


def _room(key: HostKey, hosts: Sequence[HostView], load: Mapping[str, int], limits: Limits) -> list[str]:
    """A host name for each free place, fullest host first."""
    ready = [host for host in hosts if host.key == key and host.phase is HostPhase.READY]
    ready.sort(key=lambda host: (-load.get(host.name, 0), host.name))
    return [host.name for host in ready for _ in range(_places(key, limits) - load.get(host.name, 0))]


def _in_turns(places: Sequence[str]) -> list[str]:
    """The same places, each host's first one before any host's second, so that no host only gets what comes last."""
    turns: Counter[str] = Counter()
    numbered: list[tuple[int, str]] = []
    for host in places:
        numbered.append((turns[host], host))
        turns[host] += 1
    return [host for _, host in sorted(numbered, key=lambda place: place[0])]


def _places(key: HostKey, limits: Limits) -> int:
    return 1 if key.isolated_task else limits.tasks_per_host


def _missing_hosts(key: HostKey, without_place: int, hosts: Sequence[HostView], limits: Limits) -> int:
    starting = sum(host.key == key and host.phase is HostPhase.STARTING for host in hosts)
    return max(0, math.ceil(max(0, without_place) / _places(key, limits)) - starting)


def _outlived(host: HostView, wanted_keys: set[HostKey], limits: Limits, now: float) -> bool:
    if host.key in wanted_keys:
        return False
    if host.key.isolated_task:
        return True
    return host.idle_since is not None and now - host.idle_since >= limits.idle_host_seconds
