"""Which host a task or host task runs on, and which hosts are needed. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from penstock.config.model import JobConfig, PostgresOutput
from penstock.tasks.heap import process_for
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import POLICIES
from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.actions import StartHost, StartTask
from services.task_manager.decide.model import DesiredTask, HostKey, HostPhase, HostView, Limits, Observed

DEFAULT_KEY = HostKey(package=("builtin", "0", ""))
_SESSION_PREFIX = "spark.sql."
SMALL_STATE_BYTES = 64 * 2**20
SMALLEST_BYTES = 1024 * 2**20
UNKNOWN_STATE_BYTES = 512 * 2**20
FACTOR = 4


def host_key(spec: TaskSpec) -> HostKey:
    """The key of the hosts that can run this task."""
    shared = _shared_key(spec.job, spec.config)
    if spec.config.isolation != "process":
        return shared
    return replace(shared, isolated_task=spec.task_id, memory_bytes=spec.config.resources.memory_bytes)


def _shared_key(job: str, config: JobConfig) -> HostKey:
    """Only the job's Spark settings that apply to a whole host; those of `spark.sql` apply to one task's session.

    A job that has something to keep from others has hosts of its own, unless they run no package's code.
    """
    package, settings = config.package, sorted(config.spark_settings.items())
    static = tuple((name, value) for name, value in settings if not name.startswith(_SESSION_PREFIX))
    runs_code = package.name != DEFAULT_KEY.package[0]
    has_connection = any(isinstance(output, PostgresOutput) for output in config.outputs.values())
    keeps = runs_code and (bool(config.secrets) or has_connection)
    return HostKey((package.name, package.version, package.digest or ""), static, job=job if keeps else "")


def has_host(observed: Observed, key: HostKey, *, starting: bool) -> bool:
    """Whether a host of the key is ready, or `starting` where that is enough."""
    enough = {HostPhase.READY, HostPhase.STARTING} if starting else {HostPhase.READY}
    return any(host.key == key and host.phase in enough for host in observed.hosts.values())


def host_key_for(request: HostRequest, capacity_bytes: float) -> HostKey:
    """The key of the host for a host task, in a container of `capacity_bytes` of memory.

    The host has the package and settings that the request names, or those of the default host. A large or unknown
    state gets a host that runs no tasks: if the memory does not suffice, no task of another job ends with it.
    """
    shared = DEFAULT_KEY if request.host_config is None else _shared_key(request.job, request.host_config)
    if not POLICIES[request.kind].own_host or _state_bytes(request) <= SMALL_STATE_BYTES:
        return shared
    # The next power of two is taken, so that states of about one size share a host.
    rounded = 1 << (_needed_bytes(request, math.inf) - 1).bit_length()
    return replace(shared, memory_bytes=_within(rounded, capacity_bytes), for_host_tasks=True)


def _state_bytes(request: HostRequest) -> int:
    return UNKNOWN_STATE_BYTES if request.known_state_bytes is None else request.known_state_bytes


def _needed_bytes(request: HostRequest, capacity_bytes: float) -> int:
    """1 GiB and four times the state, since state is read and written at once."""
    return _within(SMALLEST_BYTES + FACTOR * _state_bytes(request), capacity_bytes)


def _within(wanted_bytes: int, capacity_bytes: float) -> int:
    """At least 1 GiB, and no more than the container has."""
    return int(max(SMALLEST_BYTES, min(wanted_bytes, capacity_bytes)))


def place_for(
    request: HostRequest, capacity_bytes: float, observed: Observed, limits: Limits, waiting: Collection[HostKey] = ()
) -> HostKey | str:
    """As `host_key_for`, beside the hosts that are up; why there is no memory for the host, for work that can be left
    out. `waiting`: the keys of the hosts that other host tasks wait for.

    A host that is idle and large enough is used: a redistribution goes on where the state was copied. Work that can be
    left out is done beside tasks. The kernel ends one of the container's processes when no memory is left, which may be
    one with tasks: so the largest heaps together must fit.
    """
    key = host_key_for(request, capacity_bytes)
    if not key.for_host_tasks:
        return key
    needed = _needed_bytes(request, capacity_bytes)
    up = [host for host in observed.hosts.values() if host.phase.stays and host.key not in waiting]
    idle = [host.key.memory_bytes for host in up if _is_idle(host, key) and host.key.memory_bytes >= needed]
    if idle:
        return replace(key, memory_bytes=min(idle))
    if not POLICIES[request.kind].spare_memory:
        return key
    keys = [host.key for host in observed.hosts.values()]
    coming = {each for each in waiting if each.for_host_tasks}.difference(keys)
    free = int(capacity_bytes - sum(_host_bytes(each, limits) for each in (*keys, *coming)))
    if needed <= free:
        return replace(key, memory_bytes=min(key.memory_bytes, free))
    missing = f"{needed // 2**20} MiB of memory, and the hosts that are up leave {max(0, free) // 2**20} MiB"
    return f"a host for the state needs {missing}"


def _is_idle(host: HostView, key: HostKey) -> bool:
    """Whether the host is of the key, whatever its memory, and nothing runs on it."""
    return host.idle_since is not None and replace(host.key, memory_bytes=key.memory_bytes) == key


def _host_bytes(key: HostKey, limits: Limits) -> int:
    """The most memory that a host takes."""
    return key.memory_bytes or process_for(limits.heap_bytes)


def choose_hosts(
    waiting: Iterable[DesiredTask],
    observed: Observed,
    limits: Limits,
    now: float,
    leaving: Mapping[HostKey, int] = MappingProxyType({}),
) -> tuple[list[StartTask], list[StartHost]]:
    """Assigns tasks to ready hosts with room, the fullest host first, and asks for new hosts for the other tasks.

    Hosts that are starting count as new hosts. The fullest host comes first so that the other hosts become idle and
    can end. Important tasks come first: a host carries out a few commands at a time in order of arrival. `leaving`: how
    many tasks need a place beside those that wait, by key; they do not start here.
    """
    by_key: dict[HostKey, list[DesiredTask]] = defaultdict(list)
    ordered = sorted(waiting, key=importance)
    for task in ordered:
        by_key[host_key(task.spec)].append(task)
    hosts_of: dict[str, str] = {}
    new_hosts: list[StartHost] = []
    for key in [*by_key, *(key for key in leaving if key not in by_key)]:
        tasks, room = by_key.get(key, []), _room(key, observed, limits)
        # In rounds, one place of each host a round, so that every host gets some important tasks.
        chosen = sorted(room[: len(tasks)], key=lambda place: place[0])
        hosts_of |= {task.spec.task_id: host for task, (_, host) in zip(tasks, chosen, strict=False)}
        if may_start(key, observed, now):
            without_place = len(tasks) + leaving.get(key, 0) - len(room)
            new_hosts += [StartHost(key)] * _missing_hosts(key, without_place, observed, limits)
    starts = [
        StartTask(task.spec, task.shard, task.epoch, hosts_of[task.spec.task_id], task.commit_number)
        for task in ordered
        if task.spec.task_id in hosts_of
    ]
    return starts, new_hosts


def importance(task: DesiredTask) -> tuple[int, str]:
    """A sort key: the highest priority of a job first, then by task id."""
    return importance_of(task.spec)


def importance_of(spec: TaskSpec) -> tuple[int, str]:
    """`importance` of any task."""
    return (-spec.config.priority, spec.task_id)


def places(key: HostKey, observed: Observed, limits: Limits) -> int:
    """The number of free places on ready hosts of this key."""
    return len(_room(key, observed, limits))


def missing_warm_hosts(
    observed: Observed, new_hosts: Iterable[StartHost], limits: Limits, now: float
) -> list[StartHost]:
    """Starts of default hosts, up to `limits.warm_hosts` of them; busy hosts count as warm."""
    if not may_start(DEFAULT_KEY, observed, now):
        return []
    present = sum(host.key == DEFAULT_KEY and host.phase.stays for host in observed.hosts.values())
    coming = sum(action.key == DEFAULT_KEY for action in new_hosts)
    return [StartHost(DEFAULT_KEY)] * (limits.warm_hosts - present - coming)


def surplus_hosts(observed: Observed, needed_keys: set[HostKey], limits: Limits, now: float) -> list[str]:
    """Names of idle hosts that may end: isolated ones at once, shared ones after the idle time, warm ones never."""
    hosts = observed.hosts.values()
    remaining = Counter(host.key for host in hosts if host.phase.stays)
    surplus: list[str] = []
    for host in sorted(hosts, key=lambda host: host.name, reverse=True):
        if host.phase is not HostPhase.READY or host.idle_since is None:
            continue
        keep = limits.warm_hosts if host.key == DEFAULT_KEY else 0
        if remaining[host.key] > keep and _is_unneeded(host, needed_keys, limits, now):
            remaining[host.key] -= 1
            surplus.append(host.name)
    return surplus


def may_start(key: HostKey, observed: Observed, now: float) -> bool:
    """Whether a host of this key may be started now: failed starts back off."""
    failure = observed.host_failures.get(key)
    return failure is None or now >= failure.retry_at


def _room(key: HostKey, observed: Observed, limits: Limits) -> list[tuple[int, str]]:
    """The free places as their number and their host's name, the fullest host first."""
    hosts, load = observed.hosts.items(), observed.load()
    ready = [name for name, host in hosts if host.key == key and host.phase is HostPhase.READY]
    ready.sort(key=lambda name: (-load[name], name))
    return [(number, name) for name in ready for number in range(_places(key, limits) - load[name])]


def _places(key: HostKey, limits: Limits) -> int:
    return 1 if key.isolated_task else limits.tasks_per_host


def _missing_hosts(key: HostKey, without_place: int, observed: Observed, limits: Limits) -> int:
    starting = sum(host.key == key and host.phase is HostPhase.STARTING for host in observed.hosts.values())
    return max(0, math.ceil(max(0, without_place) / _places(key, limits)) - starting)


def _is_unneeded(host: HostView, needed_keys: set[HostKey], limits: Limits, now: float) -> bool:
    if host.key in needed_keys:
        return False
    if host.key.isolated_task:
        return True
    return host.idle_since is not None and now - host.idle_since >= limits.idle_host_seconds
