"""Phase 4: tries every way in small tiers, to find the cheapest moves that bring a tier within its band. Pure.

A way is built one shard at a time, the largest first. It is abandoned when it cannot end within capacity and band.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from services.shard_manager.placement.balance import EDGE, Costs
from services.shard_manager.placement.evenness import Measure, deviation_by, measure_of
from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NO_GROUP, Flags, Floats, Ints
from services.shard_manager.placement.solution import Solution, solution_of

_MOST = 1 << 16

_SLACK = 1e-9
"""The rounding error of a sum taken in another order is smaller."""


def brute_force(frame: Frame, solution: Solution, costs: Costs, budget: int | None) -> Solution:
    """Brings each small tier that is out of band into its band, where a way within the budget exists."""
    measure = measure_of(frame, solution)
    deviation = np.abs(deviation_by(frame, measure, solution)).max(axis=1, initial=0.0)
    for tier in np.unique(frame.tier[(deviation > frame.problem.band + EDGE) & (frame.tier >= 0)]):
        containers = np.flatnonzero(frame.tier == tier)
        rows = np.flatnonzero(np.isin(solution.holder, containers) & ~_idle(frame, solution, costs))
        if 1 < len(containers) ** min(len(rows), 64) <= _MOST:
            solution = _best(frame, solution, measure, costs, budget, containers, rows)
    return solution


def _idle(frame: Frame, solution: Solution, costs: Costs) -> Flags:
    """The shards [S] that no band, group or cost asks to move."""
    is_at_home = costs.free | (solution.holder == costs.home)
    return np.asarray((frame.spread == NO_GROUP) & is_at_home & (frame.load == 0.0).all(axis=1))


def _best(
    frame: Frame, solution: Solution, measure: Measure, costs: Costs, budget: int | None, containers: Ints, rows: Ints
) -> Solution:
    """The solution with the cheapest way for a tier's shards `rows`; the same solution if there is none."""
    ways = _promising(frame, measure, containers, rows)
    away = (containers[ways] != costs.home[rows]) & ~costs.free[rows]
    good = _within(frame, measure, containers, rows, ways)
    if budget is not None:
        already = int((solution.holder[rows] != costs.home[rows])[~costs.free[rows]].sum())
        good &= away.sum(axis=1) <= budget + already
    if not good.any():
        return solution
    cost = away @ frame.cost[rows] + _crowded(frame, rows, ways) * frame.cost[rows].sum()
    holder = solution.holder.copy()
    holder[rows] = containers[ways[np.where(good, cost, np.inf).argmin()]]
    return solution_of(frame, holder)


def _promising(frame: Frame, measure: Measure, containers: Ints, rows: Ints) -> Ints:
    """All ways [ways, shards] that may be within capacity and band: for each shard an index into the containers.

    Sorted by the last shard's container, then by the one before. A shard never counts more than it takes.
    """
    scale = measure.scale[containers]
    even = np.divide(1.0, scale, out=np.full_like(scale, np.inf), where=scale > 0)
    width = frame.problem.band + EDGE + _SLACK
    most = np.minimum(frame.limit[containers] * (1.0 + _SLACK), even * (1.0 + width))
    least = np.where(scale > 0, even * (1.0 - width), 0.0)
    load = measure.columns[:, rows].T
    ways = np.zeros((1, len(rows)), dtype=np.int64)
    total = np.zeros((1, *scale.shape))
    left = load.sum(axis=0)
    for shard in np.argsort(-(load[:, None, :] / even).max(axis=(1, 2)), kind="stable"):
        left = left - load[shard]
        way, place = np.nonzero((total + load[shard] <= most).all(axis=2))
        ways, total = ways[way], total[way]
        ways[:, shard] = place
        total[np.arange(len(way)), place] += load[shard]
        is_enough = (np.maximum(least - total, 0.0).sum(axis=1) <= left + _SLACK * np.abs(least).sum(axis=0)).all(
            axis=1
        )
        ways, total = ways[is_enough], total[is_enough]
    return ways[np.lexsort(ways.T)]


def _within(frame: Frame, measure: Measure, containers: Ints, rows: Ints, ways: Ints) -> Flags:
    """The ways that keep every container within capacity and band."""
    scale, counted = measure.scale[containers], measure.columns[:, rows].T
    good = np.ones(len(ways), dtype=np.bool_)
    for place, container in enumerate(containers):
        there = ways == place
        off: Floats = np.abs(there @ counted * scale[place] - (scale[place] > 0))
        good &= (there @ frame.load[rows] <= frame.limit[container]).all(axis=1)
        good &= (off <= frame.problem.band + EDGE).all(axis=1)
    return good


def _crowded(frame: Frame, rows: Ints, ways: Ints) -> Ints:
    """How many pairs of shards of one job share a container, for each way."""
    count = np.zeros(len(ways), dtype=np.int64)
    for one, other in _same_group(frame.spread[rows]):
        count += ways[:, one] == ways[:, other]
    return count


def _same_group(group: Ints) -> list[tuple[int, int]]:
    """The pairs of indexes with the same group."""
    return [(one, other) for one, other in combinations(range(len(group)), 2) if group[one] == group[other] != NO_GROUP]
