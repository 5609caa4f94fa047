"""Whether placement has come to rest once all is calm: nothing is to move any more, and each container is within its
band in every dimension where the budget of one placement can bring its tier there. That is known of tiers so small that
all ways can be tried; of larger ones placement promises no more than to find what its search finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.model.alerts import AlertKind
from penstock.tasks.dimensions import NAMES
from services.shard_manager.placement.cell import Rules
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.placement.target import target_of
from tests.simulation.weighing import BAND, HEADROOM, ROUNDING, Knowledge, deviations
from tests.support.memory.shards import MemoryShardStore
from tests.support.memory.store import MemoryStore

MOST_WAYS = 1 << 16


def not_at_rest(memory: MemoryStore, budget: int) -> Iterator[str]:
    """What is to be done yet, by the newest loads. It is asked apart from the leader, whose placements are watched."""
    store, now = MemoryShardStore(memory), memory.wall_time()
    members = {
        name: member
        for name, member in memory.members.items()
        if member.live and (member.drain_until is None or now < member.drain_until)
    }
    jobs, told, sharding = store.jobs(), store.loads(), memory.facts.sharding
    present = {shard: owner.container for shard, owner in memory.owners.items() if owner.container in members}
    needs = needs_of(jobs, told, sharding)
    target = target_of(members, needs, present, Rules(HEADROOM, BAND, budget), 0.0)
    if target.order or not target.finished:
        yield f"shards {sorted(target.order)} are to move yet"
    elif all(alert.kind != AlertKind.UNPLACEABLE for alert in target.alerts):
        known = Knowledge(members, tuple(jobs), tuple(told), sharding, present)
        for tier in known.tiers():
            yield from _out_of_band(known, tier, budget)


def _out_of_band(known: Knowledge, tier: Sequence[str], budget: int) -> Iterator[str]:
    found = deviations(known, known.present, tier)
    out = {
        (container, name): round(off, 4)
        for container, by_dimension in found.items()
        for name, off in by_dimension.items()
        if abs(off) > BAND + ROUNDING
    }
    if out and _is_in_reach(known, tier, budget):
        yield f"{out} are out of band, though {budget} moves would be enough"


def _is_in_reach(known: Knowledge, tier: Sequence[str], budget: int) -> bool:
    """By trying every way to share out the tier's shards."""
    shards = [shard for shard, container in sorted(known.present.items()) if container in tier]
    if not shards or len(tier) ** min(len(shards), 64) > MOST_WAYS:
        return False
    ways = np.indices((len(tier),) * len(shards), dtype=np.int8).reshape(len(shards), -1).T
    loads = np.array([[known.loads[shard][name] for name in NAMES] for shard in shards])
    usable = np.array([[known.usable[container][name] for name in NAMES] for container in tier])
    even = usable * (loads.sum(axis=0) / usable.sum(axis=0))
    home = np.array([tier.index(known.present[shard]) for shard in shards])
    ways = ways[(ways != home).sum(axis=1) <= budget]
    for place in range(len(tier)):
        total = (ways == place).astype(np.float64) @ loads
        is_even = np.abs(total / even[place] - 1) <= BAND - ROUNDING
        ways = ways[((total <= usable[place]) & is_even).all(axis=1)]
    return len(ways) > 0
