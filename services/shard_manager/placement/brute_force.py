"""Tries every way in small tiers, to find the cheapest moves that bring a tier within its band. Pure."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from services.shard_manager.placement.evenness import EDGE, Measure, deviation_by, measure_of
from services.shard_manager.placement.frame import Frame, budget_left, moves_away, totals
from services.shard_manager.placement.problem import NO_GROUP, Flags, Floats, Ints

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
    ways = _good_ways(frame, measure, containers, rows)
    away = (containers[ways] != frame.home[rows]) & ~frame.free[rows]
    more = moves_away(frame, rows, holder[rows], containers[ways]).sum(axis=1)
    cost = away @ frame.cost[rows] + _crowded(frame, rows, ways) * frame.cost[rows].sum()
    cost[more > budget_left(frame, holder)] = np.inf
    if not np.isfinite(cost).any():
        return holder
    holder = holder.copy()
    holder[rows] = containers[ways[cost.argmin()]]
    return holder


def _good_ways(frame: Frame, measure: Measure, containers: Ints, rows: Ints) -> Ints:
    """The ways [ways, shards] that keep every container within capacity and band, in order: the place among
    `containers` of each shard. Sets of shards are numbers, with a bit for each shard."""
    load, bits = _of_sets(frame.columns[:, rows]), np.arange(len(rows))
    counted = load if measure.columns is frame.columns else _of_sets(measure.columns[:, rows])
    every_shard, taken, ways = load.shape[1] - 1, np.zeros(1, dtype=np.int64), np.zeros((1, len(rows)), dtype=np.int64)
    for place, container in enumerate(containers[:-1]):
        sets = np.flatnonzero(_within(frame, measure, container, load, counted))
        way, chosen = np.nonzero(taken[:, None] & sets == 0)
        taken, ways = taken[way] | sets[chosen], ways[way] + place * (sets[chosen, None] >> bits & 1)
    left = every_shard - taken
    is_good = _within(frame, measure, containers[-1], load, counted)[left]
    ways = ways[is_good] + (len(containers) - 1) * (left[is_good, None] >> bits & 1)
    return np.asarray(ways[np.lexsort(ways.T[::-1])])


def _of_sets(columns: Floats) -> Floats:
    """The sums [D, sets] of `columns` [D, shards] over every set of shards: each shard doubles the sets."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def _within(frame: Frame, measure: Measure, container: int, load: Floats, counted: Floats) -> Flags:
    """The sets of shards that keep a container within capacity, by `load` [D, sets], and band, by `counted`."""
    scale = measure.scale[container][:, None]
    fits = (load <= frame.limit[container][:, None]).all(axis=0)
    return np.asarray(fits & (np.abs(counted * scale - (scale > 0)) <= frame.problem.band + EDGE).all(axis=0))


def _crowded(frame: Frame, rows: Ints, ways: Ints) -> Ints:
    """How many pairs of shards of one job share a container, for each way."""
    group, count = frame.spread[rows], np.zeros(len(ways), dtype=np.int64)
    for one, other in combinations(range(len(rows)), 2):
        if group[one] == group[other] != NO_GROUP:
            count += ways[:, one] == ways[:, other]
    return count
