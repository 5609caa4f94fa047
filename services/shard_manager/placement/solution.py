"""A solution: the container of each shard, and the load of each container. Each phase returns a new one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import Flags, Floats, Ints


@dataclass(frozen=True)
class Solution:
    """`holder` [S], the container of each shard or `NOBODY`; `total` [C, D], the load of each container."""

    holder: Ints
    total: Floats


def solution_of(frame: Frame, holder: Ints) -> Solution:
    """The solution of these holders, with its sums."""
    return Solution(holder, totals(frame, holder))


def totals(frame: Frame, holder: Ints) -> Floats:
    """The load of each container [C, D], summed in order of shards."""
    return column_totals(frame.columns, holder, len(frame.usable))


def column_totals(columns: Floats, holder: Ints, containers: int) -> Floats:
    """The sums of `columns` [D, S + 1] by container [C, D], added in the order of the shards."""
    bucket, count = holder + 1, containers + 1
    sums = [np.bincount(bucket, weights=column[:-1], minlength=count)[1:] for column in columns]
    return np.stack(sums, axis=1).astype(np.float64)


def fits(frame: Frame, total: Floats) -> Flags:
    """The containers [C] within capacity less headroom in every dimension."""
    return np.asarray((total <= frame.limit).all(axis=1))


def band_scale(frame: Frame, total: Floats) -> Floats:
    """Factors [C, D] that turn a container's load into a share of its even load; 0 where the tier has no load.

    The even load of a container is its share of the tier's load, in proportion to its usable capacity.
    """
    scale = np.zeros_like(total)
    for tier in range(int(frame.tier.max(initial=-1)) + 1):
        members = np.flatnonzero(frame.tier == tier)
        usable = frame.usable[members]
        capacity, load = usable.sum(axis=0), total[members].sum(axis=0)
        level = np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
        even = usable * level
        scale[members] = np.divide(1.0, even, out=np.zeros_like(even), where=even > 0)
    return scale


def deviations(scale: Floats, total: Floats) -> Floats:
    """How far each container is from its even load [C, D]: 0.1 is 10 % above, -0.1 below; 0 where there is no load."""
    return np.asarray(total * scale - (scale > 0))
