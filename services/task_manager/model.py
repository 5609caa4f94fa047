"""What the Task Manager knows of its tasks and hosts, as immutable values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import TaskState

ErrorKind = Literal["fenced", "broken_task", "retryable"]


@dataclass(frozen=True, slots=True, order=True)
class HostKey:
    """What tasks must have in common to share a Spark host.

    `package` is name, version and digest; `isolated_task` the one task of a host with a limit of its own,
    `memory_bytes` that limit (0: the container's setting for shared hosts).
    """

    package: tuple[str, str, str]
    static_settings: tuple[tuple[str, str], ...] = ()
    isolated_task: str = ""
    memory_bytes: int = 0


class WorkKind(StrEnum):
    """What hosts do besides running tasks."""

    REDISTRIBUTION = "redistribution"
    SEAL = "seal"
    SAVEPOINT = "savepoint"
    REMOVAL = "removal"
    INITIALIZE = "initialize"
    COLLECTION = "collection"


class WorkKey(NamedTuple):
    """A work for a job. `number`: the generation that is written, sealed or removed, that of a savepoint, or the
    revision that an output is made for."""

    job: str
    kind: WorkKind
    number: int


class HostPhase(StrEnum):
    """A Spark host as its supervisor sees it; a host that has ended is not listed at all."""

    STARTING = "starting"
    READY = "ready"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class HostView:
    """A host process. `since` is when it entered its phase, `idle_since` when its last task or work ended (None: it
    has some).

    `kill_at` is when an ending host is killed.
    """

    name: str
    key: HostKey
    phase: HostPhase
    since: float
    idle_since: float | None
    kill_at: float | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task on a host. There is no view of a task that has ended.

    `spec` is what it runs, `epoch` the assignment epoch it was started under, `since` when it entered its state,
    `life` the number of the command that started it.
    `kill_at` is when its host is killed unless it has stopped. `lease_ended_at` is set once the lease that allowed it
    is over. `pending_live` is a live change that the host has not confirmed; `live_failed` one that it refused.
    """

    spec: TaskSpec
    shard: int
    epoch: int
    state: TaskState
    host: str
    since: float
    life: int = 0
    kill_at: float | None = None
    lease_ended_at: float | None = None
    pending_live: TaskSpec | None = None
    live_failed: bool = False

    @property
    def task_id(self) -> str:
        """`job/index`."""
        return self.spec.task_id


@dataclass(frozen=True, slots=True)
class Crash:
    """The newest crash of a task that has not been healthy since; `count` is that of crashes in a row."""

    spec: TaskSpec
    epoch: int
    count: int
    error: str
    error_kind: ErrorKind
    out_of_memory: bool
    retry_at: float


@dataclass(frozen=True, slots=True)
class HostFailure:
    """Hosts of a key that ended before they were ready, in a row."""

    count: int
    error: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class WantedTask:
    """A task of an owned shard, and the assignment epoch of that ownership. `refusal`: why it must not run here."""

    spec: TaskSpec
    shard: int
    epoch: int
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential: the first retry is immediate, the second after `first_seconds`, doubling up to `cap_seconds`."""

    first_seconds: float
    cap_seconds: float


@dataclass(frozen=True, slots=True)
class LoadPeriods:
    """Seconds. A task's load is its mean use over the last `window` (002 section IV-B), known once it was measured for
    `first`, because a start is no measure of what follows, and told every `report`.
    """

    window: float = 600.0
    first: float = 60.0
    report: float = 600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The periods and bounds of reconciliation; seconds unless named otherwise."""

    tasks_per_host: int = 100
    warm_hosts: int = 1
    works_per_host: int = 2
    stop_seconds: float = 30.0
    lease_stop_seconds: float = 10.0
    start_seconds: float = 180.0
    host_start_seconds: float = 180.0
    host_exit_seconds: float = 10.0
    idle_host_seconds: float = 300.0
    healthy_seconds: float = 60.0
    crash_backoff: Backoff = Backoff(1.0, 60.0)
    broken_backoff: Backoff = Backoff(10.0, 600.0)
    loads: LoadPeriods = LoadPeriods()
