"""Another number of shards on a running cell. Pure.

A multiple takes one write (`penstock.store.resharding`), once no shard is on its way: each part has the owner and the
epoch of the whole, so no task stops. For a divisor the shards that become one are brought together first: they are
placed as one, on an open container with room for all of it, and go there by ordinary moves. Then one write makes them
one, under the greatest of their epochs, and tasks that ran under another restart.

Why no task ever has two owners:

1. A task's shard under kN is a part of its shard under N (`penstock.tasks.shards`), and that write leaves who owns a
   task as it is. So it does not matter when who learns of it; and its epoch never goes down, so nothing fences it.
2. A container's shards come with the sharding that they are numbered by, of one moment: in a heartbeat's answer from
   memory that changes under one lock, from the store in one statement. The write takes an assignment number, which
   orders the two: no answer from before it replaces one from after it. On the way everything that is kept by number of
   shard (what is owned, what was dropped, what runs, deadlines) is put into the new numbers before anything is decided.
3. After the write owners change, by DROP and ADD that speak of kN. A container that still counts N would stop less than
   is meant, or nothing, and call it done: so it refuses orders of another count, which is no answer, and learns kN from
   its next heartbeat. What it says itself, held or dropped, is passed over while it speaks of another count. Answers to
   orders from before the write are not read any more.
4. A container that is cut off keeps N, and the tasks of its shards, until its lease ends; the fail-over interval is
   longer. A leader that dies before the write leaves nothing, one that dies after it all of it: the next one reads
   owners and count together. One that does not hear whether its write was done reads all anew before it plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from penstock.tasks.ownership import Owner


def is_due(owners: Mapping[int, Owner], wanted: int, given_up: Collection[int]) -> bool:
    """Whether the shards can be made `wanted` now, while none is on its way: all that become one have one owner, and
    the owner holds them."""
    holders: dict[int, set[str | None]] = {}
    for shard, owner in owners.items():
        holders.setdefault(shard % wanted, set()).add(owner.container)
    return not given_up and all(len(held) == 1 for held in holders.values())


def together(present: Mapping[int, str], count: int, wanted: int, takers: Collection[str]) -> dict[int, str]:
    """Where shards are, as what they become: by number under `wanted`, a divisor of `count`, one of `takers` that has
    most of its parts; or, so that nothing is brought there, any container that has them all.

    `present`: where shards are or are on their way to. What has neither is left out: it is for placement to find a
    place for it.
    """
    held: dict[int, Counter[str]] = {}
    for shard, container in present.items():
        held.setdefault(shard % wanted, Counter())[container] += 1
    homes = {number: _home(parts, count // wanted, takers) for number, parts in held.items()}
    return {number: home for number, home in homes.items() if home is not None}


def _home(parts: Counter[str], whole: int, takers: Collection[str]) -> str | None:
    open_ones = [name for name in parts if name in takers]
    if open_ones:
        return min(open_ones, key=lambda name: (-parts[name], name))
    return next((name for name, count in parts.items() if count == whole), None)
