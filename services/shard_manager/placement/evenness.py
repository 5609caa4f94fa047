"""How evenness is measured: what each shard counts, and the even load of each container. Pure.

The even load is a tier's load, shared out by usable capacity. A shard is *oversized* in a dimension in which it alone
takes more than the band allows on the largest container of its tier. The container of an oversized shard is always out
of band, and the other containers then have less than the mean. So an oversized shard counts only `COUNTED` of an even
load: its container gets fewer shards beside it, two on one container are too many, and the other containers are even
among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NOBODY, Floats, Ints
from services.shard_manager.placement.solution import Solution, band_scale, column_totals, deviations

COUNTED = 2 / 3
"""What an oversized shard counts. Two of them exceed every band. With the least dense other shards beside one, its
container comes within the band in the other dimensions."""


@dataclass(frozen=True)
class Measure:
    """`columns` [D, S + 1]: what each shard counts, as in `Frame.columns`; `scale` [C, D]: factors that turn the sums
    of these columns into shares of the even load. Valid as long as no shard changes its tier."""

    columns: Floats
    scale: Floats


def measure_of(frame: Frame, solution: Solution) -> Measure:
    """The measure of a solution."""
    scale = band_scale(frame, solution.total)
    if not _may_be_oversized(frame, scale):
        return Measure(frame.columns, scale)
    columns = frame.columns.copy()
    for members, rows in _tiers(frame, solution.holder):
        usable = frame.usable[members]
        for dimension in range(len(columns)):
            oversized, level = _oversized(frame, rows, usable[:, dimension], dimension)
            columns[dimension, oversized] = COUNTED * level * usable[:, dimension].mean()
    counted = column_totals(columns, solution.holder, len(frame.usable))
    return Measure(columns, band_scale(frame, counted))


def deviation_by(frame: Frame, measure: Measure, solution: Solution) -> Floats:
    """How far each container is from its even load [C, D], by the measure."""
    if measure.columns is frame.columns:
        return deviations(measure.scale, solution.total)
    return deviations(measure.scale, column_totals(measure.columns, solution.holder, len(frame.usable)))


def _may_be_oversized(frame: Frame, scale: Floats) -> bool:
    """Whether any shard exceeds the band on the container with the smallest even load."""
    largest = frame.load.max(axis=0, initial=0.0)
    return bool((largest * scale.max(axis=0, initial=0.0) > 1 + frame.problem.band).any())


def _tiers(frame: Frame, holder: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The containers of each tier, with the shards on them."""
    tier = np.where(holder == NOBODY, -1, frame.tier[holder])
    for number in range(int(frame.tier.max(initial=-1)) + 1):
        yield np.flatnonzero(frame.tier == number), np.flatnonzero(tier == number)


def _oversized(frame: Frame, rows: Ints, usable: Floats, dimension: int) -> tuple[Ints, float]:
    """The oversized shards of a tier, and the level (load per usable capacity) of the other shards.

    Leaving out the excess lowers the level, and at a lower level more shards may be oversized. There is at most one for
    each container.
    """
    load = frame.load[rows, dimension]
    most, each = usable.max(initial=0.0) * (1 + frame.problem.band), float(usable.mean())
    found, level = load > np.inf, 0.0
    while True:
        count = int(found.sum())
        capacity = usable.sum() - COUNTED * count * each
        level = float(load[~found].sum() / capacity) if capacity > 0 else 0.0
        more = found | (load > level * most)
        if int(more.sum()) == count or int(more.sum()) >= len(usable):
            return rows[found], level
        found = more
