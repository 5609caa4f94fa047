"""Drains that came to their limit: what is still on such a container is taken off at once, by DROP like any other move.

Until its limit a drain is only a matter of placement: shards leave as others have room, within the budget of moves, and
one that fits nowhere else stays. From the limit on nothing stays: a shard that has no place elsewhere is dropped all
the same, nobody owns it, and placement's alert names it. One that does not obey loses its lease after a grace
(`penstock.tasks.ownership.drain_is_over`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.tasks.ownership import Member, Owner, drain_is_over
from services.shard_manager.moves import Freed, Planned

DRAIN_OVERDUE = "drain_overdue"
_AT_ONCE = timedelta()


class DrainAlert(NamedTuple):
    """A container that still owns shards long after the limit of its drain; `details` are JSON."""

    container: str
    message: str
    details: Mapping[str, Any]


def overdue(members: Mapping[str, Member], now: datetime) -> frozenset[str]:
    """The live containers whose drain is at its limit or past it."""
    return frozenset(name for name, member in members.items() if member.live and drain_is_over(member, now, _AT_ONCE))


def taken_off(
    owners: Mapping[int, Owner],
    containers: Collection[str],
    place_of: Callable[[int], str | None],
    takers: Collection[str],
    on_their_way: Collection[int],
    given_up: Collection[int],
) -> list[Planned | Freed]:
    """Moves of all shards off `containers`, whatever the budget: to their place if that is one of `takers`,
    else to nobody. Shards that move already (`on_their_way`) go on as they do; `given_up`: dropped by their owner."""
    events: list[Planned | Freed] = []
    for shard, owner in sorted(owners.items()):
        if owner.container is None or owner.container not in containers or shard in on_their_way:
            continue
        place = place_of(shard)
        destination = place if place in takers and place not in containers else None
        if shard in given_up:
            events.append(Freed(shard, owner.epoch, destination))
        else:
            events.append(Planned(shard, owner.epoch, owner.container, destination))
    return events


def late(
    members: Mapping[str, Member], shard_counts: Mapping[str, int], now: datetime, patience: timedelta
) -> dict[str, DrainAlert]:
    """The containers that own shards longer than `patience` after the limit: they were told to drop them, and have not
    said that they did."""
    return {
        name: _alert(name, member, shard_counts[name])
        for name, member in sorted(members.items())
        if member.live and drain_is_over(member, now, patience) and shard_counts.get(name, 0) > 0
    }


def _alert(name: str, member: Member, shards: int) -> DrainAlert:
    limit = "" if member.drain_until is None else member.drain_until.isoformat(timespec="seconds")
    message = f"{name} was to be empty at {limit}, and has not said that it dropped its last shards"
    return DrainAlert(name, message, {"shards": shards, "drain_until": limit})
