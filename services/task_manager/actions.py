"""What reconciliation asks for: data, performed by `container.Container`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.tasks.spec import TaskSpec
from services.task_manager.model import HostKey, WorkKey


class StopReason(StrEnum):
    """Why a task is stopped."""

    NO_LEASE = "no lease"
    NOT_WANTED = "not wanted here"
    NEW_EPOCH = "shard was assigned anew"
    RESTART = "restart for a change"
    START_TOOK_TOO_LONG = "start took too long"


@dataclass(frozen=True, slots=True)
class StartHost:
    """Start a Spark host for tasks of this key."""

    key: HostKey


@dataclass(frozen=True, slots=True)
class EndHost:
    """Ask an idle host to end; it is killed at `kill_at`."""

    host: str
    kill_at: float


@dataclass(frozen=True, slots=True)
class KillHost:
    """Kill a host with all its processes."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start a task on a ready host, fenced by `epoch`."""

    spec: TaskSpec
    shard: int
    epoch: int
    host: str


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop a task; its host is killed at `kill_at` unless it has. A task that is stopping gets the earlier time."""

    task_id: str
    reason: StopReason
    kill_at: float


@dataclass(frozen=True, slots=True)
class ApplyLive:
    """Hand a running task a spec that needs no restart."""

    task_id: str
    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class AdoptRevision:
    """The task runs as the newer spec asks already: only note it."""

    task_id: str
    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class DoWork:
    """Give a ready host a work."""

    key: WorkKey
    host: str


Action = StartHost | EndHost | KillHost | StartTask | StopTask | ApplyLive | AdoptRevision | DoWork
