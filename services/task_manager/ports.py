"""What the Task Manager needs of the world, named for what it asks; tests and simulation give other ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.spark.channel import Command, Event
from penstock.tasks.shards import Sharding
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, Snapshot, TaskReportBatch
from services.task_manager.model import HostKey


class SpecSource(Protocol):
    """Where task specs come from. Both calls raise Unavailable."""

    def full(self) -> Snapshot | None:
        """Everything; None when nothing changed since the last call."""
        ...

    def delta(self, after: int, wait_seconds: float) -> Snapshot:
        """What came after a commit, waited for up to `wait_seconds`."""
        ...


class ReportSink(Protocol):
    """Who is told what runs here."""

    def report(self, batch: TaskReportBatch) -> None:
        """Hands over the newest state. Raises Unavailable."""
        ...


class ShardAuthority(Protocol):
    """Who says which shards are ours."""

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """One heartbeat. Raises Unavailable."""
        ...


class StoredShards(NamedTuple):
    """A full map: the shards of this container with their epochs, the highest epoch, and how tasks are shared out to
    shards, all of one moment. `commit_number`: a commit of the running table that is no older than that, for the first
    map of a life."""

    shards: Mapping[int, int]
    version: int
    sharding: Sharding
    commit_number: int


class LeaseStore(Protocol):
    """The container's own lease row, for when no Shard Manager answers.

    Both raise LeaseLost when the row says that this container was declared lost or replaced, Unavailable when the
    store cannot be reached.
    """

    def renew(self, incarnation: str) -> StoredShards:
        """Holds the fail-over off."""
        ...

    def adopt(self, former: str, incarnation: str) -> StoredShards:
        """The same for a restarted Task Manager, which takes the place of its former life."""
        ...


@dataclass(frozen=True, slots=True)
class HostExit:
    """How a host ended. `lease_ran_out`: it ended itself because nobody renewed its lease."""

    reason: str
    out_of_memory: bool = False
    lease_ran_out: bool = False


class Host(Protocol):
    """One Spark host. No call blocks."""

    def send(self, command: Command) -> None:
        """Hands a command over; lost when the host has ended."""
        ...

    def kill(self) -> None:
        """Kills the host with all its processes."""
        ...

    def exit(self) -> HostExit | None:
        """How it ended; None while any of its processes may live, and until all that it said has been heard."""
        ...

    def has_lapsed(self) -> bool:
        """Whether it has ended by itself because its lease ran out; known sooner than `exit` tells it."""
        ...


class Hosts(Protocol):
    """Starts Spark hosts. `on_event` is called from a thread of the host's; `on_exit` soon after it has ended."""

    def start(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> Host:
        """Starts a host and returns at once. Raises OSError when no process can be made."""
        ...
