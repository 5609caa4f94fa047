"""The Shard Manager's port to the job store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from penstock.store.cluster import ShardingFacts
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member, Membership, Owner
from services.shard_manager.placement.alerts import PlacementAlert
from services.shard_manager.store.owners import Change

LEASE = "shard_manager"


class Cell(NamedTuple):
    """A cell at one moment: all containers by name, lost ones too; owners by shard, all or only those that changed; and
    the newest commit of the running table."""

    facts: ShardingFacts
    members: dict[str, Member]
    owners: dict[int, Owner]
    commit_number: int


class FailedOver(NamedTuple):
    """The containers that are lost now, and the new owners of their shards."""

    lost: frozenset[str]
    owners: dict[int, Owner]


class Registered(NamedTuple):
    """The answer to a container that asked to be registered.

    `owners`: the shards that changed hands. `commit_number`: a commit of the running table; every later commit finds
    the container registered.
    """

    membership: Membership
    owners: dict[int, Owner]
    commit_number: int
    facts: ShardingFacts


class ShardStore(Protocol):
    """The Shard Manager's calls to the job store.

    Every call is atomic and raises Unavailable. Calls with a leader epoch raise Fenced once a newer leader was elected.
    """

    def take_over(self, leader_epoch: int) -> Cell:
        """Reads everything. Shards that were never assigned are added first, without an owner."""
        ...

    def read(self, above: int) -> Cell:
        """Reads the cell, and the owners of the shards that changed above an assignment epoch."""
        ...

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        """Writes a container's row as `penstock.tasks.ownership.membership` decides; reads owners `above` an epoch.

        The container's region gets a selector slot.
        """
        ...

    def fail_over(
        self,
        candidates: Mapping[str, str],
        heirs: Mapping[str, Mapping[int, Change]],
        interval_seconds: float,
        leader_epoch: int,
    ) -> FailedOver:
        """Declares containers (name to incarnation) lost and gives their shards to their `heirs`.

        A container that renewed its own lease in the store during the last `interval_seconds` stays live.
        """
        ...

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> dict[int, Owner]:
        """Gives shards new owners; returns those that were changed. A shard with a newer epoch is left alone."""
        ...

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        """Changes the number of shards to `count`, a multiple or a divisor, if that is what is wanted now.

        The parts of a shard have its owner and epoch. Shards that become one have the greatest epoch of them. Raises
        Conflict when they have different owners.
        """
        ...

    def give_slots_to_jobs(self, leader_epoch: int) -> None:
        """Gives the selectors of running jobs a slot, if a known container meets them; the next `read` shows it."""
        ...

    def save_heartbeats(self, heard_at: Mapping[str, datetime], leader_epoch: int) -> None:
        """Writes the times of the containers' last heartbeats, for people."""
        ...

    def jobs(self) -> list[JobTasks]:
        """The jobs whose tasks should run."""
        ...

    def loads(self) -> list[TaskLoad]:
        """The loads of tasks as last reported."""
        ...

    def save_placement(
        self, placements: Mapping[str, Mapping[str, Any]], alerts: Sequence[PlacementAlert], leader_epoch: int
    ) -> None:
        """Writes the placement figures by container, and makes `alerts` the open alerts of placement."""
        ...

    def leader_url(self) -> str | None:
        """The URL of the leader; None when it is unknown."""
        ...
