"""How evenness is measured: what each shard counts, and the even load of each container. Pure.

The even load is a tier's load, shared out by usable capacity. A shard is *oversized* in a dimension in which it alone
takes more than the band allows on the largest container of its tier. The container of an oversized shard is always out
of band, and the other containers then have less than the mean. So an oversized shard counts only `COUNTED` of an even
load: its container gets fewer shards beside it, two on one container are too many, and the other containers are even
among themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement.frame import Frame, column_totals, part_of, totals
from services.shard_manager.placement.problem import NOBODY, Floats, Ints

COUNTED = 2 / 3
"""What an oversized shard counts. Two of them exceed every band. With the least dense other shards beside one, its
container comes within the band in the other dimensions."""
AIM = 0.9
"""The search aims at this share of the band, so that nothing ends on its edge."""
EDGE = 1e-9
"""What rounding may add to a deviation."""


@dataclass(frozen=True)
class Measure:
    """`columns` [D, S + 1]: what each shard counts, as in `Frame.columns`; `scale` [C, D]: factors that turn the sums
    of these columns into shares of the even load. Valid as long as no shard changes its tier."""

    columns: Floats
    scale: Floats


def measure_of(frame: Frame, holder: Ints) -> Measure:
    """The measure of these holders [S]."""
    scale = band_scale(frame, totals(frame, holder))
    if not (frame.load.max(axis=0, initial=0.0) * scale.max(axis=0, initial=0.0) > 1 + frame.problem.band).any():
        return Measure(frame.columns, scale)
    columns, tier = frame.columns.copy(), np.where(holder == NOBODY, -1, frame.tier[holder])
    for number in range(int(frame.tier.max()) + 1):
        usable, rows = frame.usable[frame.tier == number], np.flatnonzero(tier == number)
        for dimension in _with_oversized(frame, rows, usable):
            oversized, level = _oversized(frame, rows, usable[:, dimension], dimension)
            columns[dimension, oversized] = COUNTED * level * usable[:, dimension].mean()
    return Measure(columns, band_scale(frame, column_totals(columns, holder, len(frame.usable))))


def deviation_by(frame: Frame, measure: Measure, holder: Ints, total: Floats) -> Floats:
    """How far each container is from its even load [C, D], by the measure. `total` [C, D] as by `totals`."""
    is_plain = measure.columns is frame.columns
    counted = total if is_plain else column_totals(measure.columns, holder, len(measure.scale))
    return deviations(measure.scale, counted)


def deviations(scale: Floats, total: Floats) -> Floats:
    """How far each container is from its even load [C, D]: 0.1 is 10 % above, -0.1 below; 0 where there is no load."""
    return np.asarray(total * scale - (scale > 0))


def imbalance(deviation: Floats, aim: float) -> Floats:
    """How far out of band a container is: the sum over dimensions of the squared excess over `aim`."""
    return np.asarray((np.maximum(np.abs(deviation) - aim, 0) ** 2).sum(axis=-1))


def even_scale(usable: Floats, load: Floats) -> Floats:
    """Factors [n, D] that turn loads into shares of the even load, when `load` [D] is shared out by `usable` [n, D]."""
    return part_of(1.0, usable * part_of(load, usable.sum(axis=0)))


def band_scale(frame: Frame, total: Floats) -> Floats:
    """Factors [C, D] that turn a container's load into a share of its even load; 0 where the tier has no load."""
    scale = np.zeros_like(total)
    for tier in range(int(frame.tier.max(initial=-1)) + 1):
        members = frame.tier == tier
        scale[members] = even_scale(frame.usable[members], total[members].sum(axis=0))
    return scale


def _with_oversized(frame: Frame, rows: Ints, usable: Floats) -> list[int]:
    """The dimensions in which a tier has any oversized shard."""
    load = frame.load[rows]
    largest = load.max(axis=0, initial=0.0) * usable.sum(axis=0)
    most = load.sum(axis=0) * usable.max(axis=0, initial=0.0) * (1 + frame.problem.band)
    return [int(dimension) for dimension in np.flatnonzero(largest > most * (1 - EDGE))]


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
