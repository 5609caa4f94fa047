"""Task to shard: md5 of the task id modulo the shard count (Turbine, section IV). The same on every machine, for ever.

A task of a job with a selector has a number near its md5: the next lower multiple of `SLOTS`, plus the slot of the
selector in the cell's list. So tasks with different selectors never share a shard while the count is a multiple of
`SLOTS`. Another count keeps as many selectors apart as its greatest common divisor with `SLOTS`.

The count can change, because every task has one number x for all counts, and its shard is x mod count. So x mod kN = s
implies x mod N = s mod N: the shards s, s + N, s + 2N, ... of kN share out the tasks of shard s of N.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeVar

SLOTS = 16
"""The most selectors of a cell. A power of two, so that it divides the usual shard counts."""

MOST_SHARDS = 1_000_000

Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Sharding:
    """How tasks are shared out to shards. A set of shard numbers has a meaning only under its sharding.

    `selectors`: the selectors with a slot, in order of slot; only ever appended to.
    """

    count: int
    selectors: tuple[str, ...] = ()

    def shard_of(self, task_id: str, selector: str | None = None) -> int | None:
        """The shard of a task, in `range(count)`; None for a task whose selector has no slot, which does not run.

        The Shard Manager gives a slot to every container's region and to the selectors of running jobs. Appending a
        selector is safe: its tasks did not run before, so no two containers run them, whichever learns of it first.
        """
        if selector is None:
            return shard_of(task_id, self.count)
        if selector not in self.selectors:
            return None
        number = _number(task_id)
        return (number - number % SLOTS + self.selectors.index(selector)) % self.count

    def with_selectors(self, selectors: set[str]) -> Sharding:
        """The same with slots for more selectors, in order of name, as long as there are slots."""
        fresh = sorted(selectors - set(self.selectors))
        return replace(self, selectors=(*self.selectors, *fresh)[:SLOTS])

    def keeps_apart(self, count: int) -> bool:
        """Whether no two of the selectors share a shard under another count."""
        return gcd(count, SLOTS) >= len(self.selectors)

    def is_refined_by(self, other: Sharding) -> bool:
        """Whether each shard of the other sharding is a part of a shard of this one."""
        return other.count % self.count == 0

    def refined(self, of_shard: Mapping[int, Of], count: int) -> dict[int, Of]:
        """A mapping by shard, as a mapping by the parts of the shards under a multiple of this count."""
        return {part: what for shard, what in of_shard.items() for part in range(shard, count, self.count)}


def shard_of(task_id: str, shard_count: int) -> int:
    """The shard of a task without a selector, in `range(shard_count)`."""
    return _number(task_id) % shard_count


def _number(task_id: str) -> int:
    return int.from_bytes(hashlib.md5(task_id.encode(), usedforsecurity=False).digest(), "big")
