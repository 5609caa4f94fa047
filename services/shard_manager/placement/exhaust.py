"""Phase 4, for tiers so small that everything can be tried: the fewest moves that bring one within its band. Pure."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from services.shard_manager.placement.balance import EDGE, Costs
from services.shard_manager.placement.evenness import judged, measure_of
from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NO_GROUP, Flags, Floats, Ints
from services.shard_manager.placement.solution import (
    Solution,
    replicas_by_region,
    solution_of,
)

_MOST = 1 << 16


def exhaust(frame: Frame, solution: Solution, costs: Costs, budget: int | None) -> Solution:
    """The solution, with each small tier that is out of band brought into it where any way does within the budget."""
    deviation = np.abs(judged(frame, measure_of(frame, solution), solution)).max(axis=1, initial=0.0)
    for tier in np.unique(frame.tier[(deviation > frame.problem.band + EDGE) & (frame.tier >= 0)]):
        containers = np.flatnonzero(frame.tier == tier)
        rows = np.flatnonzero(np.isin(solution.holder, containers))
        if 1 < len(containers) ** min(len(rows), 64) <= _MOST:
            solution = _best(frame, solution, costs, budget, containers, rows)
    return solution


def _best(frame: Frame, solution: Solution, costs: Costs, budget: int | None, containers: Ints, rows: Ints) -> Solution:
    """The cheapest way for a tier's shards `rows`; the solution as it is when there is none."""
    count = len(containers)
    ways = np.arange(count ** len(rows))[:, None] // count ** np.arange(len(rows)) % count
    away = (containers[ways] != costs.home[rows]) & ~costs.free[rows]
    good = _within(frame, solution, containers, rows, ways) & _apart(frame, solution, containers, rows, ways)
    if budget is not None:
        already = int((solution.holder[rows] != costs.home[rows])[~costs.free[rows]].sum())
        good &= away.sum(axis=1) <= budget + already
    if not good.any():
        return solution
    cost = away @ frame.cost[rows] + _crowded(frame, rows, ways) * frame.cost[rows].sum()
    holder = solution.holder.copy()
    holder[rows] = containers[ways[np.where(good, cost, np.inf).argmin()]]
    return solution_of(frame, holder)


def _within(frame: Frame, solution: Solution, containers: Ints, rows: Ints, ways: Ints) -> Flags:
    """The ways that keep every container within capacity and band."""
    measure = measure_of(frame, solution)
    scale, counted = measure.scale[containers], measure.columns[:, rows].T
    good = np.ones(len(ways), dtype=np.bool_)
    for place, container in enumerate(containers):
        there = ways == place
        off: Floats = np.abs(there @ counted * scale[place] - (scale[place] > 0))
        good &= (there @ frame.load[rows] <= frame.limit[container]).all(axis=1)
        good &= (off <= frame.problem.band + EDGE).all(axis=1)
    return good


def _apart(frame: Frame, solution: Solution, containers: Ints, rows: Ints, ways: Ints) -> Flags:
    """The ways that bring no two replicas to one region."""
    good = np.ones(len(ways), dtype=np.bool_)
    replica, region = frame.problem.shards.replica[rows], frame.region[containers]
    elsewhere = solution.holder.copy()
    elsewhere[rows] = -1
    taken = replicas_by_region(frame, elsewhere)
    for place in np.flatnonzero(replica != NO_GROUP):
        good &= taken[replica[place]][region[ways[:, place]]] == 0
    for one, other in _pairs(replica):
        good &= region[ways[:, one]] != region[ways[:, other]]
    return good


def _crowded(frame: Frame, rows: Ints, ways: Ints) -> Ints:
    """How many pairs of one job each way has on one container."""
    count = np.zeros(len(ways), dtype=np.int64)
    for one, other in _pairs(frame.spread[rows]):
        count += ways[:, one] == ways[:, other]
    return count


def _pairs(group: Ints) -> list[tuple[int, int]]:
    """Places of which the group is the same."""
    return [(one, other) for one, other in combinations(range(len(group)), 2) if group[one] == group[other] != NO_GROUP]
