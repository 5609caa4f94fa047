"""Who holds what, and what that sums to. Phases take a solution and return another. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints


@dataclass(frozen=True)
class Solution:
    """`holder` [S], the container of each shard or `NOBODY`; `total` [C, D], the load of each container."""

    holder: Ints
    total: Floats


def solution_of(frame: Frame, holder: Ints) -> Solution:
    """The solution with its sums, which do not depend on how it came about."""
    return Solution(holder, totals(frame, holder))


def totals(frame: Frame, holder: Ints) -> Floats:
    """The load of each container [C, D], summed in order of shards."""
    return column_totals(frame.columns, holder, len(frame.usable))


def column_totals(columns: Floats, holder: Ints, containers: int) -> Floats:
    """What each container holds [C, D] of `columns` [D, S + 1], summed in order of shards."""
    bucket, count = holder + 1, containers + 1
    sums = [np.bincount(bucket, weights=column[:-1], minlength=count)[1:] for column in columns]
    return np.stack(sums, axis=1).astype(np.float64)


def fits(frame: Frame, total: Floats) -> Flags:
    """The containers [C] within capacity less headroom in every dimension."""
    return np.asarray((total <= frame.limit).all(axis=1))


def band_scale(frame: Frame, total: Floats) -> Floats:
    """What turns a load on a container into a share of what is even there [C, D]; 0 where there is no load to even out.

    Even is the tier's total load, divided by the containers' usable capacity.
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
    """How far each container is from even [C, D]: 0.1 is 10 % above, -0.1 below; 0 where nothing is to even out."""
    return np.asarray(total * scale - (scale > 0))


def replicas_by_region(frame: Frame, holder: Ints) -> Ints:
    """How many shards of each replica group each region holds [groups, R]."""
    replica = frame.problem.shards.replica
    regions = max(len(frame.problem.containers.region_names), 1)
    groups = int(replica.max(initial=-1)) + 1
    held = np.flatnonzero((holder != NOBODY) & (replica >= 0))
    cells = replica[held] * regions + frame.region[holder[held]]
    return np.bincount(cells, minlength=groups * regions).reshape(groups, regions)
