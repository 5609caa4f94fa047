"""What evenness is judged by: what each shard counts, and what is even on each container. Pure.

Even is a tier's load divided by its containers' usable capacity. A shard that alone takes more of a dimension than the
band allows on the largest container of its tier is *oversized* there: whatever is done, its container is out of band,
and the others have less than the mean. What it has too much is left out: it counts `COUNTED` of what is even, so that
its container gets less beside it, two of them on one container are too much, and the others are level among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NOBODY, Floats, Ints
from services.shard_manager.placement.solution import Solution, band_scale, column_totals, deviations

COUNTED = 2 / 3
"""What an oversized shard counts: two are above every band; with the least dense of the others beside one, its
container comes within the band in its other dimensions."""


@dataclass(frozen=True)
class Measure:
    """`columns` [D, S + 1]: what each shard counts, as `Frame.columns`; `scale` [C, D]: what turns what a container
    holds by them into a share of what is even there. Good as long as no shard changes its tier."""

    columns: Floats
    scale: Floats


def measure_of(frame: Frame, solution: Solution) -> Measure:
    """What a solution is judged by."""
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


def judged(frame: Frame, measure: Measure, solution: Solution) -> Floats:
    """How far each container is from even [C, D], by the measure."""
    if measure.columns is frame.columns:
        return deviations(measure.scale, solution.total)
    return deviations(measure.scale, column_totals(measure.columns, solution.holder, len(frame.usable)))


def _may_be_oversized(frame: Frame, scale: Floats) -> bool:
    """Whether any shard is larger than the band allows on the container where least is even."""
    largest = frame.load.max(axis=0, initial=0.0)
    return bool((largest * scale.max(axis=0, initial=0.0) > 1 + frame.problem.band).any())


def _tiers(frame: Frame, holder: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The containers of each tier, and the shards that they hold."""
    tier = np.where(holder == NOBODY, -1, frame.tier[holder])
    for number in range(int(frame.tier.max(initial=-1)) + 1):
        yield np.flatnonzero(frame.tier == number), np.flatnonzero(tier == number)


def _oversized(frame: Frame, rows: Ints, usable: Floats, dimension: int) -> tuple[Ints, float]:
    """Of a tier's shards those that are oversized, and the level (load per usable capacity) that the others leave.

    What they have too much lowers the level, and at a lower level more may be oversized; one a container at most.
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
