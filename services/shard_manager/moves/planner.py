"""Which shards to assign and which to move, from the present owners and the target. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.tasks.ownership import Owner
from services.shard_manager.moves.moves import Planned
from services.shard_manager.placement.target import Target


def present_of(owners: Mapping[int, Owner], containers: Collection[str], moving: Mapping[int, str]) -> dict[int, str]:
    """The container of each shard; a moving shard (`moving`: shard to destination) counts as arrived.

    Shards of containers that are gone are left out.
    """
    owned = {shard: owner.container for shard, owner in owners.items() if owner.container in containers}
    heading = {shard: container for shard, container in moving.items() if container in containers}
    return {shard: container for shard, container in {**owned, **heading}.items() if container is not None}


def plan(
    owners: Mapping[int, Owner],
    target: Target,
    containers: Collection[str],
    moving: Collection[int],
    dropped: Collection[int],
    *,
    move_limit: int,
) -> list[Planned]:
    """The events that start new moves: of every shard that nobody runs, and of at most `move_limit` others.

    The most urgent go first. `containers`: the live ones; `dropped`: shards that their owner dropped. A shard without a
    place stays where it is.
    """
    live = frozenset(containers)
    events: list[Planned] = []
    elsewhere: list[Planned] = []
    for shard, owner in sorted(owners.items()):
        destination = target.place_of(shard)
        if destination is None or shard in moving or destination not in live:
            continue
        if owner.container is None or owner.container not in live or shard in dropped:
            events.append(Planned(shard, owner.epoch, None, destination))
        elif owner.container != destination:
            elsewhere.append(Planned(shard, owner.epoch, owner.container, destination))
    rank = {number: place for place, number in enumerate(target.order)}
    in_order = sorted(elsewhere, key=lambda move: (rank.get(target.number_of(move.shard), len(rank)), move.shard))
    return [*events, *in_order[: max(0, move_limit)]]


def destination_of(planned: str | None, target: str | None, takers: Collection[str]) -> str | None:
    """The new owner of a shard that nobody runs: the planned one, or the target's if the planned one takes no shards;
    None if neither does."""
    return next((container for container in (planned, target) if container in takers), None)
