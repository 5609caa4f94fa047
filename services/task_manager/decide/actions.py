"""What reconciliation decides, as data. `state.State` records actions and returns their effects on hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.model import HostKey


class StopReason(StrEnum):
    """Why a task is stopped."""

    NO_LEASE = "no lease"
    NOT_DESIRED = "not desired here"
    NEW_EPOCH = "shard was assigned again"
    RESTART = "restart for a change"
    START_TOOK_TOO_LONG = "start took too long"
    HOST_LEAVES = "its host will be killed"


@dataclass(frozen=True, slots=True)
class StartHost:
    """Start a Spark host for tasks of this key."""

    key: HostKey


@dataclass(frozen=True, slots=True)
class EndHost:
    """Ask an idle host to end, and kill it at `kill_at`."""

    host: str
    kill_at: float


@dataclass(frozen=True, slots=True)
class EvacuateHost:
    """Give a host no more work and move its tasks to another one; it is killed at `kill_at` at the latest."""

    host: str
    reason: str
    kill_at: float


@dataclass(frozen=True, slots=True)
class KeepHost:
    """The reason to evacuate a host is gone: it gets work again."""

    host: str


@dataclass(frozen=True, slots=True)
class KillHost:
    """Kill a host with all its processes."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start a task on a ready host, fenced by `epoch`. `commit_number`: the commit that asks for the task."""

    spec: TaskSpec
    shard: int
    epoch: int
    host: str
    commit_number: int = 0


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """Have a ready host make ahead what a task needs that must not run yet. No task is counted for it."""

    spec: TaskSpec
    host: str


@dataclass(frozen=True, slots=True)
class GiveUpTask:
    """Have a host give up what it made ahead for a task of this generation."""

    task_id: str
    generation: int
    host: str


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop a task. Unless it has stopped by `kill_at`, its host ends (`evacuation`)."""

    task_id: str
    reason: StopReason
    kill_at: float


@dataclass(frozen=True, slots=True)
class KeepTask:
    """The reason for the deadline of a task that runs is gone: its shard was dropped, and is owned again."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ApplyLive:
    """Apply a spec that needs no restart to a running task."""

    task_id: str
    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class AdoptRevision:
    """Record a newer spec that asks for nothing new."""

    task_id: str
    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class RunHostTask:
    """Give a host task to a ready host."""

    key: str
    host: str


@dataclass(frozen=True, slots=True)
class CancelHostTask:
    """Tell a host not to begin with a host task that it has."""

    key: str
    host: str


Action = (
    StartHost
    | EndHost
    | EvacuateHost
    | KeepHost
    | KillHost
    | StartTask
    | PrepareTask
    | GiveUpTask
    | StopTask
    | KeepTask
    | ApplyLive
    | AdoptRevision
    | RunHostTask
    | CancelHostTask
)
