"""Ranges of key groups that share a job's input evenly, from what came into each key group. Pure.

"Rebalance input" of Turbine (section V). Loads are records per second; they are compared as whole millionths, so
that the answer is exact and the same everywhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from penstock.config.keygroups import KeyGroupRange, even_bounds, ranges

_FRACTIONS = 1_000_000
LEAST_KNOWN_SHARE = 0.5


class Load(NamedTuple):
    """How ranges share the input: records per second of the busiest, and that by the mean of all (1 is even)."""

    largest: float
    imbalance: float


class Proposal(NamedTuple):
    """Inner bounds of ranges (none for one task), with the load of the present ranges and of these."""

    bounds: tuple[int, ...]
    before: Load
    after: Load

    @property
    def gain(self) -> float:
        """The share of the busiest range's load that it would lose; 0 when nothing comes in."""
        return 1.0 - self.after.largest / self.before.largest if self.before.largest else 0.0


def proposal(rates: Sequence[float | None], task_count: int, present: Sequence[KeyGroupRange]) -> Proposal | None:
    """The bounds that `propose` finds for measured rates by key group, None where unknown; beside `present` ranges.

    None when fewer than half of the key groups are known. The others are taken to be as the mean of the known ones.
    Raises ValueError unless 1 <= task_count <= key groups.
    """
    loads = completed(rates)
    if loads is None:
        return None
    bounds = propose(loads, task_count)
    return Proposal(bounds, load(loads, present), load(loads, ranges(len(loads), task_count, bounds)))


def completed(rates: Sequence[float | None]) -> list[float] | None:
    """The rates with the mean of the known ones in place of the unknown; None when fewer than half are known."""
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < LEAST_KNOWN_SHARE * len(rates):
        return None
    mean = sum(known) / len(known)
    return [mean if rate is None else rate for rate in rates]


def load(loads: Sequence[float], parts: Sequence[KeyGroupRange]) -> Load:
    """How `parts` share the loads of the key groups; an imbalance of 1 when there is no load."""
    sums = [sum(loads[part.lo : part.hi]) for part in parts]
    largest, mean = max(sums), sum(sums) / len(sums)
    return Load(largest, largest / mean if mean else 1.0)


def propose(loads: Sequence[float], task_count: int) -> tuple[int, ...]:
    """The inner bounds of `task_count` ranges, of one key group or more each, whose largest load is the least possible.

    Of all such bounds each is, from the first on, the nearest to that of even ranges. Raises ValueError unless
    1 <= task_count <= len(loads).
    """
    if not 1 <= task_count <= len(loads):
        raise ValueError(f"task_count must be between 1 and the {len(loads)} key groups, not {task_count}")
    sums = [0, *accumulate(round(each * _FRACTIONS) for each in loads)]
    most = _least_largest(sums, task_count)
    earliest = _earliest(sums, task_count, most)
    bounds: list[int] = []
    begin = 0
    for index, even in enumerate(even_bounds(len(loads), task_count), 1):
        last = min(_furthest(sums, begin, most), len(loads) - (task_count - index))
        begin = max(begin + 1, earliest[index], min(even, last))
        bounds.append(begin)
    return tuple(bounds)


def _least_largest(sums: Sequence[int], task_count: int) -> int:
    """The least load that no range needs to be above. A range that is split never grows, so fewer ranges are enough."""
    low = max(after - before for before, after in pairwise(sums))
    high = sums[-1]
    while low < high:
        middle = (low + high) // 2
        if _fits(sums, task_count, middle):
            high = middle
        else:
            low = middle + 1
    return low


def _fits(sums: Sequence[int], task_count: int, most: int) -> bool:
    begin, end = 0, len(sums) - 1
    for _ in range(task_count):
        begin = _furthest(sums, begin, most)
        if begin == end:
            return True
    return False


def _furthest(sums: Sequence[int], begin: int, most: int) -> int:
    """Where a range that begins at `begin` ends at the latest."""
    return bisect_right(sums, sums[begin] + most) - 1


def _earliest(sums: Sequence[int], task_count: int, most: int) -> list[int]:
    """For each range the earliest begin from which it and those after it can hold all that follows."""
    begins = [0] * task_count
    end = len(sums) - 1
    for index in range(task_count - 1, 0, -1):
        end = min(bisect_left(sums, sums[end] - most), end)
        begins[index] = end
    return begins
