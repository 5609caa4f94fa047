"""Containers as members of the cell, owners of shards, and who may take whose place. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Member(NamedTuple):
    """A container's row. `live` is False once it was declared lost. CPU in cores, memory and disk in bytes."""

    name: str
    incarnation: str
    url: str
    region: str
    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    live: bool = True


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
