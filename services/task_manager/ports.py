"""The ports of the Task Manager. Tests and the simulation implement them too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.model.reports import TaskReportBatch
from penstock.spark.channel import Command, Event
from penstock.tasks.shards import Sharding
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, Snapshot
from services.task_manager.decide.model import HostKey


class SpecSource(Protocol):
    """The Task Service as the source of task specs. Both calls raise Unavailable."""

    def full(self) -> Snapshot | None:
        """A full snapshot; None when nothing has changed since the last call."""
        ...

    def delta(self, after: int, wait_seconds: float) -> Snapshot:
        """What was committed above `after`; waits up to `wait_seconds` for a commit."""
        ...


class ReportSink(Protocol):
    """The Task Service as the receiver of reports."""

    def report(self, batch: TaskReportBatch) -> None:
        """Stores the newest report. Raises Unavailable."""
        ...


class ShardAuthority(Protocol):
    """The Shard Manager."""

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Sends one heartbeat. Raises Unavailable."""
        ...


class StoredShards(NamedTuple):
    """A full map: this container's shards with their epochs, the highest epoch and the sharding, all of one moment.

    `commit_number`: a commit of the running table that is no older than the map. Only the first map of an incarnation
    uses it.
    """

    shards: Mapping[int, int]
    version: int
    sharding: Sharding
    commit_number: int


class LeaseStore(Protocol):
    """The container's own lease row, used while no Shard Manager answers.

    Both calls raise LeaseLost when the row says that this container was declared lost or replaced. They raise
    Unavailable when the store cannot be reached.
    """

    def renew(self, incarnation: str) -> StoredShards:
        """Renews the lease, which postpones the fail-over."""
        ...

    def adopt(self, former: str, incarnation: str) -> StoredShards:
        """Renews the lease of a restarted Task Manager, whose incarnation replaces a former one."""
        ...


@dataclass(frozen=True, slots=True)
class HostExit:
    """How a host ended. `lease_ran_out`: the host ended itself because its lease was not renewed."""

    reason: str
    out_of_memory: bool = False
    lease_ran_out: bool = False


class Host(Protocol):
    """One Spark host. No call blocks."""

    def send(self, command: Command) -> None:
        """Sends a command; ignored when the host has ended."""
        ...

    def kill(self) -> None:
        """Kills the host with all its processes."""
        ...

    def exit(self) -> HostExit | None:
        """How it ended; None while any of its processes may live, and until all its events have been handled."""
        ...

    def has_lapsed(self) -> bool:
        """Whether it has ended itself because its lease ran out; may be true before `exit` returns a value."""
        ...


class Hosts(Protocol):
    """Starts Spark hosts. `on_event` is called from a thread of the host, `on_exit` soon after its end."""

    def start(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> Host:
        """Starts a host and returns at once. Raises OSError when the process cannot be started."""
        ...
