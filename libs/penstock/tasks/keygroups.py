"""Key groups to tasks: contiguous ranges `[lo, hi)`, as equal as can be."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class KeyGroupRange(NamedTuple):
    """Key groups `lo` to `hi - 1`."""

    lo: int
    hi: int

    def members(self) -> range:
        """The key groups of the range."""
        return range(self.lo, self.hi)


def ranges(key_groups: int, task_count: int) -> tuple[KeyGroupRange, ...]:
    """Splits `key_groups` into `task_count` ranges that differ in size by at most one.

    Raises ValueError unless 1 <= task_count <= key_groups: a task without input is never made.
    """
    if not 1 <= task_count <= key_groups:
        raise ValueError(f"task_count must be between 1 and the {key_groups} key groups, not {task_count}")
    bounds = [index * key_groups // task_count for index in range(task_count + 1)]
    return tuple(KeyGroupRange(lo, hi) for lo, hi in pairwise(bounds))
