"""Drains at their limit: the shards that are left move off at once, by DROP like any other move. Pure.

Until its limit, a drain is a matter of placement: shards leave as other containers have room, within the move budget. A
shard that fits nowhere else stays. At the limit every shard must leave. One without a place elsewhere is dropped
anyway, nobody owns it, and placement's alert names it. A container that does not drop its shards loses its lease after
a grace (`penstock.tasks.ownership.drain_is_over`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.tasks.ownership import Member, Owner, drain_is_over
from services.shard_manager.moves.moves import Planned

_AT_ONCE = timedelta()


class ContainerAlert(NamedTuple):
    """An alert about a container; `details` are JSON."""

    container: str
    message: str
    details: Mapping[str, Any]


def to_be_emptied(members: Mapping[str, Member], now: datetime) -> frozenset[str]:
    """The live containers that every shard must leave now, with or without room: their drain is at its limit.

    Placement, the planner of moves and the recorder of owners all ask this, so they agree.
    """
    return frozenset(name for name, member in members.items() if member.live and drain_is_over(member, now, _AT_ONCE))


def taken_off(
    owners: Mapping[int, Owner],
    containers: Collection[str],
    place_of: Callable[[int], str | None],
    takers: Collection[str],
    moving: Collection[int],
    dropped: Collection[int],
) -> list[Planned]:
    """Moves of all shards off `containers`, whatever the budget.

    A shard goes to its place if that is one of `takers`, else to nobody. Shards that move already (`moving`) are left
    alone. `dropped`: shards that their owner dropped.
    """
    events: list[Planned] = []
    for shard, owner in sorted(owners.items()):
        if owner.container is None or owner.container not in containers or shard in moving:
            continue
        place = place_of(shard)
        destination = place if place in takers and place not in containers else None
        events.append(Planned(shard, owner.epoch, None if shard in dropped else owner.container, destination))
    return events


def overdue_alerts(
    members: Mapping[str, Member], shard_counts: Mapping[str, int], now: datetime, patience: timedelta
) -> dict[str, ContainerAlert]:
    """Alerts, by container, about containers that still own shards `patience` after the limit of their drain: they were
    ordered to drop them, and did not confirm it."""
    return {
        name: _alert(name, member, shard_counts[name])
        for name, member in sorted(members.items())
        if member.live and drain_is_over(member, now, patience) and shard_counts.get(name, 0) > 0
    }


def _alert(name: str, member: Member, shards: int) -> ContainerAlert:
    limit = "" if member.drain_until is None else member.drain_until.isoformat(timespec="seconds")
    message = f"container {name} should have been empty at {limit}, but has not dropped its last shards"
    return ContainerAlert(name, message, {"shards": shards, "drain_until": limit})
