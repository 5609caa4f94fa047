"""Containers as members of the cell, owners of shards, and who may take whose place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from penstock.tasks.dimensions import CPU, DISK, MEMORY, Amounts
from penstock.tasks.selectors import offered

# Availability of a container: it takes shards; it keeps what it has and gets nothing new; it is to be emptied.
OPEN, CORDONED, DRAINING = "open", "cordoned", "draining"
DRAIN_GRACE = timedelta(seconds=60)

_NOTHING: Amounts = {}
_NO_LABELS: Mapping[str, str] = {}


class Member(NamedTuple):
    """A container's row. `live` is False once it was declared lost. CPU in cores, memory and disk in bytes.

    `further_capacity`: amounts of other dimensions by name (`penstock.tasks.dimensions`). `availability`: OPEN,
    CORDONED or DRAINING; `drain_until`: when a drain takes what is left, None: never.
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
        """What it offers in each dimension, by name."""
        own = {CPU: self.cpu_cores, MEMORY: float(self.memory_bytes), DISK: float(self.disk_bytes)}
        return {**own, **self.further_capacity}

    def offers(self) -> frozenset[str]:
        """What it is chosen by, as `penstock.tasks.selectors` has it."""
        return offered(self.region, self.labels)


class Owner(NamedTuple):
    """Who owns a shard, since which assignment epoch; `container` None: nobody."""

    container: str | None
    epoch: int


class Membership(Enum):
    """What became of a container that asked to be registered."""

    UNCHANGED = "unchanged"
    NEW = "new"
    RESTARTED = "restarted"
    REFUSED = "refused"


def drain_is_over(member: Member, now: datetime, grace: timedelta = DRAIN_GRACE) -> bool:
    """Whether a container had to be empty by `now`: as long as it owns shards its lease is not renewed then, neither by
    the Shard Manager nor by its own row, so that it stops what is left and is declared lost.

    `grace`: how long after the drain's limit it is, in which what is left is still asked for by DROP_SHARD.
    """
    return member.availability == DRAINING and member.drain_until is not None and member.drain_until + grace <= now


def membership(row: Member | None, incarnation: str, *, empty: bool) -> Membership:
    """What to do with a container that says it is `incarnation`, given its row; `empty`: it holds no shard.

    A later life of a live container takes its place, but only while it holds nothing: a former life that was only
    paused comes back with the shards it held, and must not push its successor out. A lost life never comes back.
    """
    if row is not None and row.incarnation == incarnation:
        return Membership.UNCHANGED if row.live else Membership.REFUSED
    if not empty:
        return Membership.REFUSED
    return Membership.RESTARTED if row is not None and row.live else Membership.NEW


def joined(row: Member | None, member: Member) -> Member:
    """The row of a container that registers as `member`, given the one it had: its availability outlives its lives."""
    if row is None:
        return member
    return member._replace(availability=row.availability, drain_until=row.drain_until)
