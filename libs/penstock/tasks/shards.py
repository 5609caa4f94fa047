"""Task to shard: md5 of the task id modulo the shard count (002 section IV-A1), the same on every machine and for ever.

The task of a job that asks for a region or for labels (`selectors`) goes by a number near its md5: the next lower
multiple of `SLOTS`, plus the place of the job's selector in the cell's list of them. So tasks with different selectors
never meet in a shard while the shard count is a multiple of `SLOTS`; of any other count as many selectors are kept
apart as its greatest common divisor with `SLOTS`.

What makes the count changeable: every task has one number x, whatever the count is, and its shard is x mod count. So
x mod kN = s implies x mod N = s mod N: the shards s, s + N, s + 2N, ... of kN share out the tasks of the shard s of N.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeVar

SLOTS = 16
"""The most selectors of a cell; a power of two, for the form of the same in SQL (`penstock.store.simple_rollouts`)."""

MOST_SHARDS = 1_000_000

Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Sharding:
    """How tasks are shared out to shards. A set of shards means something only together with the one it was made under.

    `selectors`: those that have a place, in order; only ever appended to.
    """

    count: int
    selectors: tuple[str, ...] = ()

    def shard_of(self, task_id: str, selector: str | None = None) -> int | None:
        """The shard of a task, in `range(count)`; None for one whose selector has no place, which runs nowhere.

        That is no loss: a Shard Manager gives one to every container's region, and to what running jobs ask for. And
        it makes appending a selector safe: its tasks ran nowhere before, so whoever learns of it first, no two run
        them.
        """
        if selector is None:
            return shard_of(task_id, self.count)
        if selector not in self.selectors:
            return None
        number = _number(task_id)
        return (number - number % SLOTS + self.selectors.index(selector)) % self.count

    def with_selectors(self, selectors: set[str]) -> Sharding:
        """The same with those selectors that have no place yet, in order of name, as long as there are places."""
        fresh = sorted(selectors - set(self.selectors))
        return replace(self, selectors=(*self.selectors, *fresh)[:SLOTS])

    def keeps_apart(self, count: int) -> bool:
        """Whether under that many shards tasks with two of the selectors are never in one, so that each can be had."""
        return gcd(count, SLOTS) >= len(self.selectors)

    def is_refined_by(self, other: Sharding) -> bool:
        """Whether each of the other's shards is a part of one of these."""
        return other.count % self.count == 0

    def refined(self, of_shard: Mapping[int, Of], count: int) -> dict[int, Of]:
        """What is so of shards, of their parts under a multiple of this count."""
        return {part: what for shard, what in of_shard.items() for part in range(shard, count, self.count)}


def shard_of(task_id: str, shard_count: int) -> int:
    """The shard of a task that may be anywhere, in `range(shard_count)`."""
    return _number(task_id) % shard_count


def _number(task_id: str) -> int:
    return int.from_bytes(hashlib.md5(task_id.encode(), usedforsecurity=False).digest(), "big")
