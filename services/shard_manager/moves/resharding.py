"""Another number of shards on a running cell. Pure.

A multiple takes one write (`services.shard_manager.store.sharding`), once no shard moves. Each part of a shard has the
owner and the epoch of the whole, so no task stops. For a divisor, the shards that become one are first brought
together. They are placed as one, on an open container with room for all of them, and go there by ordinary moves. Then
one write merges them under the greatest of their epochs. Tasks that ran under another epoch restart.

Why no task ever has two owners:

1. A task's shard under kN is a part of its shard under N (`penstock.tasks.shards`), and the write changes no task's
   owner. So it does not matter when a process learns of it. A task's epoch never goes down, so nothing fences it.
2. A container's shards come together with the sharding that numbers them: in the answer to a heartbeat, from memory
   under one lock; from the store, in one statement. The write takes an assignment number, so no answer from before the
   write replaces one from after it. A container converts everything that it keeps by shard number (owned and dropped
   shards, running tasks, deadlines) to the new numbers before it decides anything.
3. After the write, owners change by DROP and ADD orders under kN. A container that still counts N would stop too little
   and answer SUCCESS. So it refuses orders of another count, which counts as no answer, and learns kN from its next
   heartbeat. The leader ignores held and dropped shards in heartbeats of another count. It also ignores answers to
   orders from before the write.
4. A container that is cut off keeps N, and the tasks of its shards, until its lease ends. The fail-over interval is
   longer. A leader that dies before the write leaves nothing behind, and one that dies after it has written everything:
   the next leader reads owners and count together. A leader that does not learn whether its write succeeded reads
   everything again before it plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from penstock.tasks.ownership import Owner


def is_due(owners: Mapping[int, Owner], wanted: int, dropped: Collection[int]) -> bool:
    """Whether the count can change to `wanted` while no shard moves: shards that become one have one owner, and no
    owner has dropped a shard."""
    owners_of: dict[int, set[str | None]] = {}
    for shard, owner in owners.items():
        owners_of.setdefault(shard % wanted, set()).add(owner.container)
    return not dropped and all(len(each) == 1 for each in owners_of.values())


def together(present: Mapping[int, str], count: int, wanted: int, takers: Collection[str]) -> dict[int, str]:
    """The present place of each merged shard, by number under `wanted`, a divisor of `count`.

    The place is the one of `takers` that has most of the parts, or else any container that has all of them, since no
    part has to move there. `present`: the place of each shard, its destination while it moves. Merged shards without
    such a place are left out; placement finds one for them.
    """
    parts_on: dict[int, Counter[str]] = {}
    for shard, container in present.items():
        parts_on.setdefault(shard % wanted, Counter())[container] += 1
    homes = {number: _home(parts, count // wanted, takers) for number, parts in parts_on.items()}
    return {number: home for number, home in homes.items() if home is not None}


def _home(parts: Counter[str], whole: int, takers: Collection[str]) -> str | None:
    open_ones = [name for name in parts if name in takers]
    if open_ones:
        return min(open_ones, key=lambda name: (-parts[name], name))
    return next((name for name, count in parts.items() if count == whole), None)
