"""Containers as members of the cell, owners of shards, and which incarnation may replace which. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from penstock.tasks.dimensions import CPU, DISK, MEMORY, Amounts
from penstock.tasks.selectors import offered
from penstock.tasks.shards import Sharding

# Availability of a container. OPEN: takes shards. CORDONED: keeps its shards, gets no more. DRAINING: is emptied.
OPEN, CORDONED, DRAINING = "open", "cordoned", "draining"
DRAIN_GRACE = timedelta(seconds=60)

_NOTHING: Amounts = {}
_NO_LABELS: Mapping[str, str] = {}


class OwnedShards(NamedTuple):
    """A full map: a container's shards with their epochs, the highest epoch and the sharding, all of one moment.

    `commit_number`: a commit of the running table that is no older than the map. Only the first map of an incarnation
    uses it. `unasked_stop`: specs must be at least as new before they start tasks of shards that are new in the map.
    """

    shards: Mapping[int, int]
    version: int
    sharding: Sharding
    commit_number: int
    unasked_stop: int = 0


class Member(NamedTuple):
    """A container's row. `live`: False once the container was declared lost. CPU in cores, memory and disk in bytes.

    `further_capacity`: amounts of other dimensions by name (`penstock.tasks.dimensions`). `availability`: OPEN,
    CORDONED or DRAINING. `drain_until`: the limit of a drain, at which all shards must leave; None: no limit.
    """

    name: str
    incarnation: str
    url: str
    region: str
    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    live: bool = True
    further_capacity: Amounts = _NOTHING
    labels: Mapping[str, str] = _NO_LABELS
    availability: str = OPEN
    drain_until: datetime | None = None

    def capacity(self) -> dict[str, float]:
        """The capacity in each dimension, by name."""
        own = {CPU: self.cpu_cores, MEMORY: float(self.memory_bytes), DISK: float(self.disk_bytes)}
        return {**own, **self.further_capacity}

    def offers(self) -> frozenset[str]:
        """The region and labels by which selectors choose it (`penstock.tasks.selectors`)."""
        return offered(self.region, self.labels)


@dataclass(frozen=True, slots=True)
class Avoidance:
    """A task that should leave a container, and stay away from it for a while: it was slow there."""

    job: str
    index: int
    container: str


class Owner(NamedTuple):
    """The owner of a shard, and the assignment epoch of its ownership; `container` None: nobody."""

    container: str | None
    epoch: int


class Membership(Enum):
    """The outcome of a container's registration."""

    UNCHANGED = "unchanged"
    NEW = "new"
    RESTARTED = "restarted"
    REFUSED = "refused"


def drain_is_over(member: Member, now: datetime, grace: timedelta = DRAIN_GRACE) -> bool:
    """Whether the limit of a container's drain, plus the grace, has passed.

    From then on its lease is not renewed while it owns shards, neither by the Shard Manager nor in its own row. So it
    stops its tasks and is declared lost. During the `grace`, DROP_SHARD asks for the shards that are left.
    """
    return member.availability == DRAINING and member.drain_until is not None and member.drain_until + grace <= now


def membership(row: Member | None, incarnation: str, *, empty: bool) -> Membership:
    """The outcome for a container that registers as `incarnation`. `row`: its present row; `empty`: it holds no shard.

    A later incarnation replaces a live one, but only while it has no shards. A former incarnation that was only paused
    comes back with its shards, and must not replace its successor. A lost incarnation never comes back.
    """
    if row is not None and row.incarnation == incarnation:
        return Membership.UNCHANGED if row.live else Membership.REFUSED
    if not empty:
        return Membership.REFUSED
    return Membership.RESTARTED if row is not None and row.live else Membership.NEW


def joined(row: Member | None, member: Member) -> Member:
    """The new row of a container that registers as `member`. It keeps the availability of its former `row`."""
    if row is None:
        return member
    return member._replace(availability=row.availability, drain_until=row.drain_until)
