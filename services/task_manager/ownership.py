"""Which shards the container owns, put together from messages that may come late, twice or out of order. Pure.

Assignment epochs come from one counter, and a full map (a heartbeat's answer, or the stored mapping) carries the
highest epoch known when it was made. So each message says exactly which shards it knows better: a map of version v
knows all about epochs up to v and nothing of later ones. Merging by that rule, per shard, gives the same result in
any order of arrival; nothing depends on pushes and answers keeping their order.

A map comes with the sharding that it was made under, which its version orders, too. When that is a new one, what is
known is put into its numbers first: of a shard that was split each part is as the whole was. Where shards became one
nothing needs to be known of what was: a map that says so is newer than all of it. That it is has to be looked at, for
the count may have become another and the same again unheard: what was ordered since is newer than a late map from then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.tasks.shards import Sharding

Epochs = Mapping[int, int]


# After so many maps in a row without it, a dropped shard that the Shard Manager was told of is forgotten. Not at once:
# until a move is recorded, an answer may leave the shard out at one time and list it under the old epoch at the next.
_MAPS_UNTIL_FORGOTTEN = 12


@dataclass(frozen=True, slots=True)
class Ownership:
    """`shards` and `dropped` map shard to assignment epoch, under `sharding`; None: no map came yet.

    A dropped shard is taken again only under a higher epoch, and is remembered until the Shard Manager has heard of
    it and listed it no more for a while: `unlisted` counts the maps. `version` is that of the newest full map,
    `order_version` that of the newest order.
    """

    shards: Epochs = field(default_factory=dict)
    dropped: Epochs = field(default_factory=dict)
    unlisted: Mapping[int, int] = field(default_factory=dict)
    version: int = 0
    order_version: int = 0
    sharding: Sharding | None = None

    @property
    def shard_count(self) -> int:
        """Of how many shards this speaks; 0: nobody said."""
        return 0 if self.sharding is None else self.sharding.count


class Ordered(NamedTuple):
    """What became of orders: the shards that were obeyed; the others' orders are older than what is known."""

    ownership: Ownership
    obeyed: frozenset[int]


def with_map(known: Ownership, shards: Epochs, version: int, told: Epochs, sharding: Sharding) -> Ownership:
    """Ownership after a full map under `sharding`. `told` is what the request that it answers had listed as dropped.

    A map older than one already applied changes nothing, nor does one of another count that is older than an order. A
    shard that the map lacks, with an epoch that the map must have known, is no longer owned: it counts as dropped.
    """
    is_renumbered = known.shard_count != sharding.count
    if version < known.version or (is_renumbered and version < known.order_version):
        return known
    if is_renumbered:
        known, told = _in_numbers_of(sharding, known), {}
    taken = {shard: epoch for shard, epoch in shards.items() if epoch > known.dropped.get(shard, -1)}
    kept = {shard: epoch for shard, epoch in known.shards.items() if epoch > max(version, taken.get(shard, -1))}
    lost = {shard: epoch for shard, epoch in known.shards.items() if shard not in taken and shard not in kept}
    dropped = {shard: epoch for shard, epoch in {**known.dropped, **lost}.items() if shard not in taken}
    unlisted = {
        shard: known.unlisted.get(shard, 0) + 1
        for shard, epoch in dropped.items()
        if told.get(shard) == epoch and shard not in shards
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


def _in_numbers_of(sharding: Sharding, known: Ownership) -> Ownership:
    """What is known, of shards of another count."""
    before = known.sharding
    if before is None or not before.is_refined_by(sharding):
        return replace(known, shards={}, dropped={}, unlisted={})
    shards, dropped = (before.refined(epochs, sharding.count) for epochs in (known.shards, known.dropped))
    return replace(known, shards=shards, dropped=dropped, unlisted={})


def with_drops(known: Ownership, orders: Epochs, version: int) -> Ordered:
    """Ownership after DROP_SHARD, ordered at `version`. An order for an epoch older than the one held is not obeyed."""
    known = _ordered(known, version)
    obeyed = {shard: epoch for shard, epoch in orders.items() if known.shards.get(shard, -1) <= epoch}
    shards = {shard: epoch for shard, epoch in known.shards.items() if shard not in obeyed}
    dropped = {**known.dropped}
    for shard, epoch in obeyed.items():
        dropped[shard] = max(epoch, dropped.get(shard, -1))
    return Ordered(replace(known, shards=shards, dropped=dropped), frozenset(obeyed))


def with_adds(known: Ownership, orders: Epochs, version: int) -> Ordered:
    """Ownership after ADD_SHARD, ordered at `version`. An epoch that a full map already covered, or that was dropped
    since, is not taken."""
    known = _ordered(known, version)
    already = {shard for shard, epoch in orders.items() if known.shards.get(shard, -1) >= epoch}
    fresh = {shard: epoch for shard, epoch in orders.items() if shard not in already and _is_news(known, shard, epoch)}
    dropped = {shard: epoch for shard, epoch in known.dropped.items() if shard not in fresh}
    owned = replace(known, shards={**known.shards, **fresh}, dropped=dropped)
    return Ordered(owned, frozenset(already | fresh.keys()))


def _ordered(known: Ownership, version: int) -> Ownership:
    return replace(known, order_version=max(version, known.order_version))


def _is_news(known: Ownership, shard: int, epoch: int) -> bool:
    return epoch > known.version and epoch > known.dropped.get(shard, -1)


def given_up(known: Ownership, shard: int, epoch: int) -> Ownership:
    """Ownership without a shard that turned out to have a newer owner; nothing changes when it was given anew since."""
    return with_drops(known, {shard: epoch}, version=0).ownership
