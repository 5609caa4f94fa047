"""Which shards to give out and which to move, from who owns what now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.tasks.ownership import Owner
from services.shard_manager.moves import Event, Freed, Planned
from services.shard_manager.spread import Assignment, spread


def target(owners: Mapping[int, Owner], containers: Collection[str], on_their_way: Mapping[int, str]) -> Assignment:
    """Where each shard should be, counting a shard in flight (`on_their_way`: shard to destination) as arrived."""
    present = {shard: owner.container for shard, owner in owners.items() if owner.container is not None}
    heading = {shard: container for shard, container in on_their_way.items() if container in containers}
    return spread(owners, containers, {**present, **heading})


def plan(
    owners: Mapping[int, Owner],
    containers: Collection[str],
    on_their_way: Mapping[int, str],
    given_up: Collection[int],
    *,
    move_limit: int,
) -> list[Event]:
    """New moves: every shard that nobody runs, and at most `move_limit` that would make the spread more even.

    `containers`: the live ones; `given_up`: shards whose owner said that it dropped them.
    """
    live = frozenset(containers)
    wanted = target(owners, live, on_their_way)
    events: list[Event] = []
    for shard, destination in sorted(wanted.items()):
        owner = owners[shard]
        if shard in on_their_way:
            continue
        if owner.container is None or owner.container not in live or shard in given_up:
            events.append(Freed(shard, owner.epoch, destination))
        elif owner.container != destination and move_limit > 0:
            events.append(Planned(shard, owner.epoch, owner.container, destination))
            move_limit -= 1
    return events


def least_loaded(containers: Collection[str], shard_counts: Mapping[str, int]) -> str | None:
    """The live container with the fewest shards, for a shard whose destination was lost meanwhile."""
    return min(containers, key=lambda container: (shard_counts.get(container, 0), container), default=None)
