"""The shards that the container owns, merged from messages that may come late, twice or out of order. Pure.

Assignment epochs come from one counter. A full map (a heartbeat's answer, or the stored mapping) carries as its version
the highest epoch known when it was made. So a map of version v is complete up to epoch v and knows no later epoch.
Merging each shard by this rule gives the same result in any order of arrival.

A map also carries its sharding. When the sharding is new, the known shards are first translated to its numbers: each
part of a split shard is treated as the whole was. Where shards were merged, the known shards are forgotten, since the
map is newer than all of them. A map is not newer when the number of shards changed and changed back without this
container hearing of it: then orders may be newer than a late map, which is why `order_version` is compared as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.tasks.shards import Sharding

Epochs = Mapping[int, int]


# A dropped shard that was reported to the Shard Manager is forgotten after so many maps without it. Not sooner:
# until a move is recorded, one answer may omit the shard and the next may list it under the old epoch.
_MAPS_UNTIL_FORGOTTEN = 12


@dataclass(frozen=True, slots=True)
class Ownership:
    """`shards` and `dropped` map shard to assignment epoch. `sharding` is None until the first map comes.

    A dropped shard is taken again only under a higher epoch. It is remembered until the Shard Manager knows of the drop
    and has not listed the shard in several maps, which `unlisted` counts. `version` is the version of the newest full
    map, `order_version` that of the newest order.
    """

    shards: Epochs = field(default_factory=dict)
    dropped: Epochs = field(default_factory=dict)
    unlisted: Mapping[int, int] = field(default_factory=dict)
    version: int = 0
    order_version: int = 0
    sharding: Sharding | None = None

    @property
    def shard_count(self) -> int:
        """The number of shards of the cell; 0 before the first map."""
        return 0 if self.sharding is None else self.sharding.count


class Ordered(NamedTuple):
    """The ownership after orders. Orders for shards that are not in `applied` are older than what is known."""

    ownership: Ownership
    applied: frozenset[int]


def with_map(known: Ownership, shards: Epochs, version: int, reported: Epochs, sharding: Sharding) -> Ownership:
    """The ownership after a full map. `reported`: the shards that the answered heartbeat listed as dropped.

    A map that is older than an applied map changes nothing. Neither does a map with another number of shards that is
    older than an order. A shard that is missing in the map, and whose epoch the map covers, counts as dropped.
    """
    is_renumbered = known.shard_count != sharding.count
    if version < known.version or (is_renumbered and version < known.order_version):
        return known
    if is_renumbered:
        known, reported = _translated(sharding, known), {}
    taken = {shard: epoch for shard, epoch in shards.items() if epoch > known.dropped.get(shard, -1)}
    kept = {shard: epoch for shard, epoch in known.shards.items() if epoch > max(version, taken.get(shard, -1))}
    lost = {shard: epoch for shard, epoch in known.shards.items() if shard not in taken and shard not in kept}
    dropped = {shard: epoch for shard, epoch in {**known.dropped, **lost}.items() if shard not in taken}
    unlisted = {
        shard: known.unlisted.get(shard, 0) + 1
        for shard, epoch in dropped.items()
        if reported.get(shard) == epoch and shard not in shards
    }
    forgotten = {shard for shard, maps in unlisted.items() if maps >= _MAPS_UNTIL_FORGOTTEN}
    return Ownership(
        shards={**taken, **kept},
        dropped={shard: epoch for shard, epoch in dropped.items() if shard not in forgotten},
        unlisted={shard: maps for shard, maps in unlisted.items() if shard not in forgotten},
        version=version,
        order_version=known.order_version,
        sharding=sharding,
    )


def _translated(sharding: Sharding, known: Ownership) -> Ownership:
    """The known shards in the numbers of another sharding."""
    before = known.sharding
    if before is None or not before.is_refined_by(sharding):
        return replace(known, shards={}, dropped={}, unlisted={})
    shards, dropped = (before.refined(epochs, sharding.count) for epochs in (known.shards, known.dropped))
    return replace(known, shards=shards, dropped=dropped, unlisted={})


def with_drops(known: Ownership, orders: Epochs, version: int) -> Ordered:
    """The ownership after DROP_SHARD orders of `version`. An order for an older epoch than the owned one is ignored."""
    known = _ordered(known, version)
    applied = {shard: epoch for shard, epoch in orders.items() if known.shards.get(shard, -1) <= epoch}
    shards = {shard: epoch for shard, epoch in known.shards.items() if shard not in applied}
    dropped = {**known.dropped}
    for shard, epoch in applied.items():
        dropped[shard] = max(epoch, dropped.get(shard, -1))
    return Ordered(replace(known, shards=shards, dropped=dropped), frozenset(applied))


def with_adds(known: Ownership, orders: Epochs, version: int) -> Ordered:
    """The ownership after ADD_SHARD orders of `version`. An epoch that a full map covers, or that was dropped, is
    ignored."""
    known = _ordered(known, version)
    owned = {shard for shard, epoch in orders.items() if known.shards.get(shard, -1) >= epoch}
    fresh = {shard: epoch for shard, epoch in orders.items() if shard not in owned and _is_newer(known, shard, epoch)}
    dropped = {shard: epoch for shard, epoch in known.dropped.items() if shard not in fresh}
    after = replace(known, shards={**known.shards, **fresh}, dropped=dropped)
    return Ordered(after, frozenset(owned | fresh.keys()))


def _ordered(known: Ownership, version: int) -> Ownership:
    return replace(known, order_version=max(version, known.order_version))


def _is_newer(known: Ownership, shard: int, epoch: int) -> bool:
    return epoch > known.version and epoch > known.dropped.get(shard, -1)


def given_up(known: Ownership, shard: int, epoch: int) -> Ownership:
    """The ownership without a shard that has a newer owner; unchanged when the shard was assigned here again since."""
    return with_drops(known, {shard: epoch}, version=0).ownership


def needs(known: Mapping[int, int], before: Ownership, after: Ownership, unasked_stop: int) -> dict[int, int]:
    """Of each owned shard: the commit that specs need before they start a task of it.

    `known`: the same before the change from one ownership to another. A shard that was owned before keeps its own; for
    a new one it is `unasked_stop`. After a change of the shard count, a shard is new unless all its parts were owned,
    and none of them needed anything.
    """
    if before.shard_count == after.shard_count:
        kept = {shard: needed for shard, needed in known.items() if shard in before.shards and shard in after.shards}
        return kept | dict.fromkeys(after.shards.keys() - before.shards.keys(), unasked_stop)
    needed = max(unasked_stop, *known.values(), 0)
    return {
        shard: needed
        for shard in after.shards
        if not (parts := _parts(shard, before.shard_count, after.shard_count))
        or any(part not in before.shards or part in known for part in parts)
    }


def _parts(shard: int, before: int, after: int) -> tuple[int, ...]:
    """The numbers, under the shard count before, of what has this number after; none when they are not known."""
    if before and after % before == 0:
        return (shard % before,)
    return tuple(range(shard, before, after)) if before % after == 0 else ()
