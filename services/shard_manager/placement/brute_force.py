"""Tries every way in small tiers, to find the cheapest moves that bring a tier within its band. Pure."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from services.shard_manager.placement.evenness import EDGE, Measure, deviation_by, measure_of
from services.shard_manager.placement.frame import Frame, budget_left, moves_away, totals
from services.shard_manager.placement.problem import NO_GROUP, Flags, Ints

_MOST = 1 << 16


def brute_force(frame: Frame, holder: Ints) -> Ints:
    """Brings each small tier that is out of band into its band, where a way within the budget exists."""
    measure = measure_of(frame, holder)
    off = np.abs(deviation_by(frame, measure, holder, totals(frame, holder))).max(axis=1, initial=0.0)
    at_home = frame.free | (holder == frame.home)
    idle = (frame.spread == NO_GROUP) & at_home & (frame.load == 0.0).all(axis=1)
    for tier in np.unique(frame.tier[off > frame.problem.band + EDGE]):
        containers = np.flatnonzero(frame.tier == tier)
        rows = np.flatnonzero(np.isin(holder, containers) & ~idle)
        if 1 < len(containers) ** min(len(rows), 64) <= _MOST:
            holder = _best(frame, holder, measure, containers, rows)
    return holder


def _best(frame: Frame, holder: Ints, measure: Measure, containers: Ints, rows: Ints) -> Ints:
    """The holders with the cheapest way for a tier's shards `rows`; the same if there is none."""
    each = (len(containers),) * len(rows)
    ways = np.stack(np.unravel_index(np.arange(len(containers) ** len(rows)), each), axis=1)
    good = _within(frame, measure, containers, rows, ways)
    ways = ways[good]
    away = (containers[ways] != frame.home[rows]) & ~frame.free[rows]
    more = moves_away(frame, rows, holder[rows], containers[ways]).sum(axis=1)
    cost = away @ frame.cost[rows] + _crowded(frame, rows, ways) * frame.cost[rows].sum()
    cost[more > budget_left(frame, holder)] = np.inf
    if not np.isfinite(cost).any():
        return holder
    holder = holder.copy()
    holder[rows] = containers[ways[cost.argmin()]]
    return holder


def _within(frame: Frame, measure: Measure, containers: Ints, rows: Ints, ways: Ints) -> Flags:
    """The ways [ways, shards] that keep every container within capacity and band."""
    good = np.ones(len(ways), dtype=np.bool_)
    for place, container in enumerate(containers):
        there, scale = ways == place, measure.scale[container]
        off = np.abs(there @ measure.columns[:, rows].T * scale - (scale > 0))
        good &= (there @ frame.load[rows] <= frame.limit[container]).all(axis=1)
        good &= (off <= frame.problem.band + EDGE).all(axis=1)
    return good


def _crowded(frame: Frame, rows: Ints, ways: Ints) -> Ints:
    """How many pairs of shards of one job share a container, for each way."""
    group, count = frame.spread[rows], np.zeros(len(ways), dtype=np.int64)
    for one, other in combinations(range(len(rows)), 2):
        if group[one] == group[other] != NO_GROUP:
            count += ways[:, one] == ways[:, other]
    return count
