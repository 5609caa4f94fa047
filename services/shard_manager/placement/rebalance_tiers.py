"""Rebalances tiers: shards that several tiers may take move from fuller tiers to emptier ones. Pure.

A tier's level is its load divided by its usable capacity, in each dimension. A tier is out of band when its level
differs from the cell's by more than the band. Each step takes two tiers and moves the shards that help most for their
cost, in both directions, as many as are needed. Balance within a tier is the next phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.assign import assign
from services.shard_manager.placement.balance import EDGE, Costs
from services.shard_manager.placement.exchanges import imbalance
from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NO_GROUP, NOBODY, Flags, Floats, Ints
from services.shard_manager.placement.solution import Solution, solution_of

_INNER = 0.9
"""Steps aim at this share of the band."""
_MOST_STEPS = 64
_PAIRS_TRIED = 16
_LEAST_GAIN = 0.05
"""The share of two tiers' imbalance that a step must take away."""
_NEARLY = 0.05
"""A step forgoes this share of what it could gain, if that saves moves."""


class Rebalanced(NamedTuple):
    """`cut`: the budget ended the search."""

    solution: Solution
    cut: bool


@dataclass(frozen=True)
class _Levels:
    """By tier [T]: `deviation` [T, D] from the cell's level; `scale` [T, D]: factors from load to deviation; `weight`
    [T]: the tier's share of the cell. `of_shard` [S]: the tier of each shard, -1: none; `may_enter` [K, T]."""

    deviation: Floats
    scale: Floats
    weight: Floats
    of_shard: Ints
    may_enter: Flags


class _Shift(NamedTuple):
    """The shards that go from tier `a` to tier `b` (`there`) and the other way (`back`). `gain`: what all useful moves
    would take off the imbalance of both; `part`: the share of these moves that the budget allows."""

    a: int
    b: int
    there: Ints
    back: Ints
    gain: float
    part: float


def rebalance_tiers(frame: Frame, solution: Solution, costs: Costs, budget: int | None) -> Rebalanced:
    """Brings tiers towards the cell's level; moves at most `budget` shards away from home."""
    cut = False
    for _ in range(_MOST_STEPS if frame.tier.max(initial=-1) > 0 else 0):
        found = _step(frame, solution, costs, budget)
        cut = cut or found.cut
        if found.solution is solution:
            break
        moved = (found.solution.holder != solution.holder) & ~costs.free & (solution.holder == costs.home)
        budget = None if budget is None else budget - int(moved.sum())
        solution = found.solution
    return Rebalanced(solution, cut)


def _step(frame: Frame, solution: Solution, costs: Costs, budget: int | None) -> Rebalanced:
    """Makes the first shift that helps, of the pairs that differ most; the same solution if there is none."""
    levels, cut = _levels(frame, solution), False
    for a, b in _pairs(frame, levels):
        least = _LEAST_GAIN * _tier_imbalance(frame, levels, [a, b]).sum()
        shift = _shift(frame, solution, costs, levels, a, b, budget)
        if shift.gain <= least:
            continue
        if shift.part == 0:
            cut = True
            continue
        after = _shifted(frame, solution, shift)
        gain = (_tier_imbalance(frame, levels, [a, b]) - _tier_imbalance(frame, _levels(frame, after), [a, b])).sum()
        if gain > least * shift.part:
            return Rebalanced(after, shift.part < 1)
    return Rebalanced(solution, cut)


def _levels(frame: Frame, solution: Solution) -> _Levels:
    count = int(frame.tier.max()) + 1
    is_in = frame.tier == np.arange(count)[:, None]
    usable, total = is_in @ frame.usable, is_in @ solution.total
    capacity, load = usable.sum(axis=0), total.sum(axis=0)
    even = usable * np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
    scale = np.divide(1.0, even, out=np.zeros_like(even), where=even > 0)
    share = np.divide(usable, capacity, out=np.zeros_like(usable), where=capacity > 0)
    first = is_in.argmax(axis=1)
    return _Levels(
        deviation=total * scale - (scale > 0),
        scale=scale,
        weight=np.asarray(share.mean(axis=1)),
        of_shard=np.where(solution.holder == NOBODY, -1, frame.tier[solution.holder]),
        may_enter=frame.may_enter[:, first],
    )


def _pairs(frame: Frame, levels: _Levels) -> Iterator[tuple[int, int]]:
    """Pairs of a tier out of band and another tier; those that differ most first."""
    bad = np.flatnonzero(np.abs(levels.deviation).max(axis=1) > frame.problem.band + EDGE)
    difference = np.abs(levels.deviation[bad][:, None, :] - levels.deviation).max(axis=2)
    order = np.argsort(-difference.reshape(-1), kind="stable")
    pairs = ((int(bad[row]), int(other)) for row, other in zip(*np.divmod(order, len(levels.weight)), strict=True))
    yield from [(one, other) for one, other in pairs if one != other][:_PAIRS_TRIED]


def _tier_imbalance(frame: Frame, levels: _Levels, tiers: list[int]) -> Floats:
    """How far tiers are out of band, weighted."""
    return np.asarray(levels.weight[tiers] * imbalance(levels.deviation[tiers], frame.problem.band * _INNER))


def _shift(
    frame: Frame, solution: Solution, costs: Costs, levels: _Levels, a: int, b: int, budget: int | None
) -> _Shift:
    """The shards that help most for their cost, as many as bring nearly the whole possible gain."""
    rows, sign = _candidates(frame, levels, a, b)
    before = _tier_imbalance(frame, levels, [a, b]).sum()
    help_each = before - _left(frame, levels, a, b, sign[:, None] * frame.load[rows])
    order = np.argsort(-help_each / frame.cost[rows], kind="stable")[: int((help_each > 0).sum())]
    rows, sign = rows[order], sign[order]
    counted = np.cumsum(~costs.free[rows] & (solution.holder[rows] == costs.home[rows]))
    allowed = len(rows) if budget is None else int((counted <= budget).sum())
    left = np.append(before, _left(frame, levels, a, b, np.cumsum(sign[:, None] * frame.load[rows], axis=0)))
    best = left.min()
    wanted = int((left <= best + _NEARLY * (before - best)).argmax())
    taken = min(wanted, allowed)
    rows, sign = rows[:taken], sign[:taken]
    return _Shift(a, b, rows[sign > 0], rows[sign < 0], float(before - left[wanted]), taken / max(wanted, 1))


def _candidates(frame: Frame, levels: _Levels, a: int, b: int) -> tuple[Ints, Ints]:
    """The shards of `a` that may enter `b`, with sign 1, and those of `b` that may enter `a`, with sign -1."""
    constraint = frame.problem.shards.constraint
    there = np.flatnonzero((levels.of_shard == a) & levels.may_enter[constraint, b])
    back = np.flatnonzero((levels.of_shard == b) & levels.may_enter[constraint, a])
    return np.append(there, back), np.append(np.ones(len(there), dtype=np.int64), np.full(len(back), -1))


def _left(frame: Frame, levels: _Levels, a: int, b: int, gone: Floats) -> Floats:
    """The imbalance of both tiers after the load `gone` [n, D] went from `a` to `b`."""
    left = np.zeros(len(gone))
    for tier, direction in ((a, -1), (b, 1)):
        after = levels.deviation[tier] + direction * gone * levels.scale[tier]
        left += levels.weight[tier] * imbalance(after, frame.problem.band * _INNER)
    return left


def _shifted(frame: Frame, solution: Solution, shift: _Shift) -> Solution:
    return _brought(frame, _brought(frame, solution, shift.there, shift.b), shift.back, shift.a)


def _brought(frame: Frame, solution: Solution, rows: Ints, tier: int) -> Solution:
    """Puts the shards on the emptiest containers of the tier; a shard without room apart from its group stays."""
    if len(rows) == 0:
        return solution
    waiting = solution.holder.copy()
    waiting[rows] = NOBODY
    only = replace(frame, may_enter=frame.may_enter & (frame.tier == tier))
    holder = assign(only, solution_of(frame, waiting), rows).holder
    stays = rows[(holder[rows] == NOBODY) | _crowds(frame, holder)[rows]]
    holder = holder.copy()
    holder[stays] = solution.holder[stays]
    return solution_of(frame, holder)


def _crowds(frame: Frame, holder: Ints) -> Flags:
    """Whether each shard shares its container with another one of its group."""
    alone = (holder == NOBODY) | (frame.spread == NO_GROUP)
    key = np.where(alone, -1 - np.arange(len(holder)), frame.spread * len(frame.usable) + holder)
    _, number, count = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(count[number.reshape(-1)] > 1)
