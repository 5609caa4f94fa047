"""Another number of shards on a running cell. Pure.

A multiple takes one write (`penstock.store.resharding`), once no shard is on its way: each part has the owner and the
epoch of the whole, so no task stops. For a divisor the shards that become one are brought together first, by ordinary
moves; then one write makes them one, under the greatest of their epochs, and tasks that ran under another restart.

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
from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heapreplace

from penstock.tasks.ownership import Owner
from services.shard_manager.moves import Event, Freed, Planned


def is_due(owners: Mapping[int, Owner], wanted: int, given_up: Collection[int]) -> bool:
    """Whether the shards can be made `wanted` now, while none is on its way: all that become one have one owner, and
    the owner holds them."""
    return not given_up and all(len(held) == 1 for held in _holders(owners, wanted).values())


def gather(
    owners: Mapping[int, Owner],
    wanted: int,
    containers: Collection[str],
    takers: Collection[str],
    on_their_way: Mapping[int, str],
    given_up: Collection[int],
    *,
    move_limit: int,
) -> Iterator[Event]:
    """New moves for a divisor: those of every shard that nobody runs, and at most `move_limit` that bring shards
    together. They know nothing of load: that is evened out afterwards.

    `containers`: the live ones; `takers`: those that are to get shards; `given_up`: shards whose owner said that it
    dropped them.
    """
    home = _homes(_holders(owners, wanted, on_their_way), takers)
    for shard, owner in sorted(owners.items()):
        destination = home.get(shard % wanted)
        if destination is None or shard in on_their_way:
            continue
        if owner.container is None or owner.container not in containers or shard in given_up:
            yield Freed(shard, owner.epoch, destination)
        elif owner.container != destination and move_limit > 0:
            yield Planned(shard, owner.epoch, owner.container, destination)
            move_limit -= 1


def _holders(
    owners: Mapping[int, Owner], wanted: int, on_their_way: Mapping[int, str] | None = None
) -> dict[int, Counter[str | None]]:
    """By number under the wanted count how many of its shards each container has, or is to have."""
    held: dict[int, Counter[str | None]] = {}
    for shard, owner in owners.items():
        container = (on_their_way or {}).get(shard, owner.container)
        held.setdefault(shard % wanted, Counter())[container] += 1
    return held


def _homes(holders: Mapping[int, Counter[str | None]], takers: Collection[str]) -> dict[int, str]:
    """Where the shards that become one go: to the container that has most of them; where none has any, to the one with
    the fewest shards so far."""
    load: Counter[str | None] = Counter()
    for held in holders.values():
        load.update(held)
    fewest = [(load[name], name) for name in sorted(takers)]
    heapify(fewest)
    home: dict[int, str] = {}
    for number, held in sorted(holders.items() if takers else ()):
        here = [name for name in held if name is not None and name in takers]
        if here:
            home[number] = min(here, key=lambda name: (-held[name], load[name], name))
            continue
        count, home[number] = fewest[0]
        heapreplace(fewest, (count + held.total(), home[number]))
    return home
