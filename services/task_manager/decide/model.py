"""Tasks, hosts, failures and limits as immutable values. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.reports import ErrorClass, TaskState
from penstock.tasks.host_task import POLICIES
from penstock.tasks.spec import TaskSpec

ErrorKind = Literal["fenced", "broken_task", "retryable"]


@dataclass(frozen=True, slots=True, order=True)
class HostKey:
    """What tasks must have in common to share a Spark host.

    `package` is name, version and digest. A host for one isolated task has its id in `isolated_task` and its memory
    limit in `memory_bytes`; for shared hosts both are empty, and the container's settings give the heap.
    A host `for_host_tasks` runs no tasks; its memory is that of a large state. `job`: the only one that may use the
    host, empty for any: code in a process can read all of it.
    """

    package: tuple[str, str, str]
    static_settings: tuple[tuple[str, str], ...] = ()
    isolated_task: str = ""
    memory_bytes: int = 0
    for_host_tasks: bool = False
    job: str = ""


class HostPhase(StrEnum):
    """The phase of a Spark host. A host that has ended is not listed. One that is leaving will be killed once its tasks
    have moved (`evacuation`)."""

    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    ENDING = "ending"

    @property
    def stays(self) -> bool:
        """Whether a host in this phase has, or will have, room for work."""
        return self in (HostPhase.STARTING, HostPhase.READY)


@dataclass(frozen=True, slots=True)
class HostView:
    """A host process.

    `since`: when it entered its phase. `idle_since`: when its last task or host task ended; None while it has some.
    `heard_at`: when it last sent the progress of its tasks, which its JVM tells; infinite until it is ready.
    `kill_at`: when it is killed, unless it has ended, stays after all, or the host task that it is for is over.
    `lease_until`: the end of the lease that the host was last told.
    """

    name: str
    key: HostKey
    phase: HostPhase
    since: float
    idle_since: float | None
    heard_at: float = math.inf
    kill_at: float = math.inf
    lease_until: float = -math.inf

    def silent_seconds(self, now: float) -> float:
        """How long nothing was heard of its JVM; 0 while it cannot be, since the host is not ready or ends."""
        is_up = self.phase in (HostPhase.READY, HostPhase.LEAVING)
        return max(0.0, now - self.heard_at) if is_up else 0.0


@dataclass(frozen=True, slots=True)
class HostExit:
    """How a host ended. `lease_ran_out`: the host ended itself because its lease was not renewed. `last_words`: of one
    that ended by an error, what its log says at the end."""

    reason: str
    out_of_memory: bool = False
    lease_ran_out: bool = False
    last_words: str = ""

    @property
    def why_not_started(self) -> str:
        """The reason, with the last words of a host that could not start."""
        return f"{self.reason}: {self.last_words}" if self.last_words else self.reason


class Place(NamedTuple):
    """Where a task runs, or ran last. `tasks`: how many tasks the host runs now."""

    host: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task on a host. A task that has ended has no view.

    `spec`: what it runs. `epoch`: the assignment epoch under which it was started. `since`: when it entered its state.
    `start_id`: the id of the command that started it.
    `lease_ended_at`: when the lease under which it was started ended; None while that lease is good.
    `kill_at`: its host ends unless the task has stopped by then; known before the task is told to stop when its shard
    was dropped or the lease has ended. `dropped_until`: when its host ends even if neighbours have not moved, since the
    Shard Manager waits for the end of the task; infinite unless its shard was dropped.
    `pending_live`: a live change that the host has not confirmed. `live_failed`: whether the host has refused one.
    """

    spec: TaskSpec
    shard: int
    epoch: int
    state: TaskState
    host: str
    since: float
    start_id: int = 0
    kill_at: float = math.inf
    dropped_until: float = math.inf
    lease_ended_at: float | None = None
    pending_live: TaskSpec | None = None
    live_failed: bool = False

    @property
    def task_id(self) -> str:
        """`job/index`."""
        return self.spec.task_id

    @property
    def has_deadline(self) -> bool:
        """Whether it must end by a certain time."""
        return min(self.kill_at, self.dropped_until) < math.inf

    def without_deadline(self) -> TaskView:
        """The same once it may run on."""
        return replace(self, kill_at=math.inf, dropped_until=math.inf)


@dataclass(frozen=True, slots=True)
class Crash:
    """The newest crash of a task that has not been healthy since. `count`: crashes in a row. `of_host`: the task went
    with its host."""

    spec: TaskSpec
    epoch: int
    count: int
    error: str
    error_kind: ErrorKind
    out_of_memory: bool
    retry_at: float
    of_host: bool = False

    @property
    def error_class(self) -> ErrorClass:
        """The class that is reported."""
        if self.out_of_memory:
            return ErrorClass.OUT_OF_MEMORY
        if self.of_host:
            return ErrorClass.HOST
        match self.error_kind:
            case "broken_task":
                return ErrorClass.CONFIGURATION
            case "fenced":
                return ErrorClass.FENCED
            case "retryable":
                return ErrorClass.OTHER


@dataclass(frozen=True, slots=True)
class HostFailure:
    """Hosts of one key that ended before they were ready. `count`: how many in a row."""

    count: int
    error: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class Observed:
    """What is here: tasks and crashes by task id, hosts by name, failed host starts by key."""

    tasks: Mapping[str, TaskView] = field(default_factory=dict)
    hosts: Mapping[str, HostView] = field(default_factory=dict)
    crashes: Mapping[str, Crash] = field(default_factory=dict)
    host_failures: Mapping[HostKey, HostFailure] = field(default_factory=dict)

    def load(self) -> Counter[str]:
        """The number of tasks by host."""
        return Counter(task.host for task in self.tasks.values())

    def copy(self) -> Observed:
        """The same values in maps of their own, which later changes do not reach."""
        return Observed(dict(self.tasks), dict(self.hosts), dict(self.crashes), dict(self.host_failures))


@dataclass(frozen=True, slots=True)
class DesiredTask:
    """A task of an owned shard, with the shard's assignment epoch. `refusal`: why the task must not run here.

    `commit_number`: the commit that asks for the task.
    """

    spec: TaskSpec
    shard: int
    epoch: int
    refusal: str | None = None
    commit_number: int = 0


class Limits(BaseModel):
    """The bounds of decisions, which are settings of the Task Manager."""

    model_config = ConfigDict(frozen=True)

    lease_stop_seconds: float = Field(
        10.0, gt=0, le=10.0, description="time to stop after the lease; then hosts are killed"
    )
    load_window_seconds: float = Field(600.0, gt=0, description="a task's load is its mean use over this time")
    load_first_seconds: float = Field(
        60.0, ge=0, description="a task's load is unknown until it was measured this long"
    )
    load_report_seconds: float = Field(600.0, gt=0, description="time between two reports of a task's load")
    tasks_per_host: int = Field(100, ge=1, description="most tasks of a shared host")
    warm_hosts: int = Field(1, ge=0, description="shared hosts kept up, idle or busy")
    heap_bytes: int = Field(2**30, gt=0, description="largest heap of a shared host, as its JVM is told")
    host_tasks_per_host: int = Field(
        2, ge=1, description="host tasks that a shared host does at once; seals count apart, cancelled ones do not"
    )
    host_task_seconds: float = Field(
        3900.0,
        gt=max(policy.longest_seconds for policy in POLICIES.values()),
        description="time for a host task on a host without tasks; then that host is killed; more than 3600",
    )
    stop_seconds: float = Field(30.0, gt=0, description="time for a task to stop; then its host is evacuated")
    evacuate_seconds: float = Field(
        120.0, ge=0, description="time for the other tasks of such a host to move; then it is killed"
    )
    drop_evacuate_seconds: float = Field(
        30.0, ge=0, description="the same for a host with a task of a dropped shard; below the drain grace"
    )
    start_seconds: float = Field(180.0, gt=0, description="time for a task to start; then it is stopped")
    host_silent_seconds: float = Field(
        10.0, gt=0, description="time without a word of a host; then its tasks are unknown; at least 10 polls"
    )
    host_hung_seconds: float = Field(
        60.0, gt=0, description="the same; then its tasks move and it is killed; at least 20 polls"
    )
    host_start_seconds: float = Field(180.0, gt=0, description="time for a host to start; then it is killed")
    idle_host_seconds: float = Field(300.0, ge=0, description="time after which an idle shared host ends")
    healthy_seconds: float = Field(60.0, gt=0, description="time of running after which crashes are forgotten")
    crash_first_seconds: float = Field(1.0, ge=0, description="back-off after the second crash in a row; doubles")
    crash_cap_seconds: float = Field(60.0, ge=0, description="longest back-off after crashes")
    broken_first_seconds: float = Field(10.0, ge=0, description="back-off after a failure that only a change can mend")
    broken_cap_seconds: float = Field(600.0, ge=0, description="longest back-off after such failures")

    def for_hosts(self, progress_interval_seconds: float) -> Limits:
        """These limits where hosts send progress so often: a silence is no shorter than ten intervals."""
        silent = max(self.host_silent_seconds, 10 * progress_interval_seconds)
        hung = max(self.host_hung_seconds, 2 * silent)
        return self.model_copy(update={"host_silent_seconds": silent, "host_hung_seconds": hung})
