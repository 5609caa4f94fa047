"""Which shards to give out and which to move, from who owns what now and where each should be. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.tasks.ownership import Owner
from services.shard_manager.moves import Event, Freed, Planned
from services.shard_manager.placing import Target


def present_of(
    owners: Mapping[int, Owner], containers: Collection[str], on_their_way: Mapping[int, str]
) -> dict[int, str]:
    """Where shards are, counting one in flight (`on_their_way`: shard to destination) as arrived; those of containers
    that are no more are left out."""
    owned = {shard: owner.container for shard, owner in owners.items() if owner.container in containers}
    heading = {shard: container for shard, container in on_their_way.items() if container in containers}
    return {shard: container for shard, container in {**owned, **heading}.items() if container is not None}


def plan(
    owners: Mapping[int, Owner],
    target: Target,
    containers: Collection[str],
    on_their_way: Collection[int],
    given_up: Collection[int],
    *,
    move_limit: int,
) -> list[Event]:
    """New moves: every shard that nobody runs, and at most `move_limit` of the others, those that should go first.

    `containers`: the live ones; `given_up`: shards whose owner said that it dropped them. A shard that has no place
    stays as it is.
    """
    live = frozenset(containers)
    events: list[Event] = []
    elsewhere: list[Planned] = []
    for shard, owner in sorted(owners.items()):
        destination = target.place_of(shard)
        if destination is None or shard in on_their_way or destination not in live:
            continue
        if owner.container is None or owner.container not in live or shard in given_up:
            events.append(Freed(shard, owner.epoch, destination))
        elif owner.container != destination:
            elsewhere.append(Planned(shard, owner.epoch, owner.container, destination))
    rank = {number: place for place, number in enumerate(target.order)}
    in_order = sorted(elsewhere, key=lambda move: (rank.get(target.number_of(move.shard), len(rank)), move.shard))
    return [*events, *in_order[: max(0, move_limit)]]


def destination_of(planned: str | None, target: str | None, takers: Collection[str]) -> str | None:
    """Where a shard that nobody runs goes: as was planned, or by the target where that one takes nothing any more;
    None while there is no place for it."""
    return next((container for container in (planned, target) if container in takers), None)
