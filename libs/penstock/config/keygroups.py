"""Key groups to tasks: contiguous ranges `[lo, hi)`, as equal as can be unless the job says where they end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.config.model import JobConfig


class KeyGroupRange(NamedTuple):
    """Key groups `lo` to `hi - 1`."""

    lo: int
    hi: int

    def members(self) -> range:
        return range(self.lo, self.hi)


def ranges(key_groups: int, task_count: int, bounds: Sequence[int] | None = None) -> tuple[KeyGroupRange, ...]:
    """Splits `key_groups` into `task_count` ranges: at `bounds` where they are in force (`bounds_in_force`), else into
    ranges that differ in size by at most one.

    Raises ValueError unless 1 <= task_count <= key_groups, and for bounds in force that leave a range empty: a task
    without input is never made.
    """
    if not 1 <= task_count <= key_groups:
        raise ValueError(f"task_count must be between 1 and the {key_groups} key groups, not {task_count}")
    inner = bounds_in_force(key_groups, task_count, bounds) or even_bounds(key_groups, task_count)
    parts = tuple(KeyGroupRange(lo, hi) for lo, hi in pairwise((0, *inner, key_groups)))
    if any(part.lo >= part.hi for part in parts):
        raise ValueError(f"the bounds {list(inner)} of {key_groups} key groups leave a range empty")
    return parts


def key_group_count(config: JobConfig) -> int:
    """The number of key groups of a job: that of its inputs and streams, which validation keeps equal."""
    return min((source.key_groups for source in config.sources.values()), default=1)


def even_bounds(key_groups: int, task_count: int) -> tuple[int, ...]:
    """Where the ranges but the first begin when they are as equal as can be."""
    return tuple(index * key_groups // task_count for index in range(1, task_count))


def bounds_in_force(key_groups: int, task_count: int, bounds: Sequence[int] | None) -> tuple[int, ...] | None:
    """The bounds as they count; None for even ranges: without bounds, with those of another number of tasks, and with
    the even ones. So what differs in this moves key groups."""
    if bounds is None or len(bounds) != task_count - 1 or tuple(bounds) == even_bounds(key_groups, task_count):
        return None
    return tuple(bounds)
