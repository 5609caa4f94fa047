"""Rebalances tiers: shards that several tiers may take move from fuller tiers to emptier ones. Pure.

A tier's level is its load divided by its usable capacity, in each dimension. A tier is out of band when its level
differs from the cell's by more than the band. Each step takes two tiers and moves the shards that help most for their
cost, in both directions, as many as are needed. Balance within a tier is the next phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from services.shard_manager.placement.assign import assign
from services.shard_manager.placement.evenness import AIM, EDGE, deviations, even_scale, imbalance
from services.shard_manager.placement.frame import Frame, budget_left, moves_away, part_of, totals
from services.shard_manager.placement.problem import NOBODY, Floats, Ints

_MOST_STEPS = 64
_PAIRS_TRIED = 16
_LEAST_GAIN = 0.05
"""The share of two tiers' imbalance that a step must take away."""
_NEARLY = 0.05
"""A step forgoes this share of what it could gain, if that saves moves."""


@dataclass(frozen=True)
class Levels:
    """By tier [T]: `deviation` [T, D] from the cell's level; `scale` [T, D]: factors from load to deviation; `weight`
    [T]: the tier's share of the cell; `aim`: smaller deviations count as none."""

    deviation: Floats
    scale: Floats
    weight: Floats
    aim: float

    def imbalance(self, a: int, b: int, gone: Floats | float = 0.0) -> Floats:
        """How far two tiers are out of band, after the load `gone` [n, D] went from `a` to `b`."""
        parts = [
            self.weight[tier] * imbalance(self.deviation[tier] + sign * gone * self.scale[tier], self.aim)
            for tier, sign in ((a, -1), (b, 1))
        ]
        return np.asarray(parts[0] + parts[1])


def rebalance_tiers(frame: Frame, holder: Ints) -> tuple[Ints, bool]:
    """Brings tiers towards the cell's level; and whether the move budget ended that."""
    is_cut = False
    for _ in range(_MOST_STEPS if frame.tier.max(initial=-1) > 0 else 0):
        after, is_cut = _step(frame, holder)
        if after is None:
            break
        holder = after
    return holder, is_cut


def levels_of(frame: Frame, holder: Ints) -> Levels:
    """The levels of the tiers."""
    is_in = frame.tier == np.arange(int(frame.tier.max(initial=-1)) + 1)[:, None]
    usable, total = is_in @ frame.usable, is_in @ totals(frame, holder)
    scale = even_scale(usable, total.sum(axis=0))
    weight = part_of(usable, usable.sum(axis=0)).mean(axis=1)
    return Levels(deviations(scale, total), scale, weight, frame.problem.band * AIM)


def _step(frame: Frame, holder: Ints) -> tuple[Ints | None, bool]:
    """The holders after the first shift that helps, of the pairs of tiers that differ most; None if there is none. And
    whether the budget allows less than would help."""
    levels, is_cut = levels_of(frame, holder), False
    for a, b in _pairs(frame, levels):
        wanted = _shift(frame, holder, levels, a, b)
        counted = np.cumsum(moves_away(frame, wanted, holder[wanted], np.full(len(wanted), NOBODY)))
        rows = wanted[: int((counted <= budget_left(frame, holder)).sum())]
        is_cut = is_cut or len(rows) < len(wanted)
        is_there = frame.tier[holder[rows]] == a
        after = _brought(frame, _brought(frame, holder, rows[is_there], b), rows[~is_there], a)
        if levels_of(frame, after).imbalance(a, b) < levels.imbalance(a, b):
            return after, is_cut
    return None, is_cut


def _pairs(frame: Frame, levels: Levels) -> Iterator[tuple[int, int]]:
    """Pairs of a tier out of band and another tier; those that differ most first."""
    bad = np.flatnonzero(np.abs(levels.deviation).max(axis=1) > frame.problem.band + EDGE)
    difference = np.abs(levels.deviation[bad][:, None, :] - levels.deviation).max(axis=2)
    order = np.argsort(-difference.reshape(-1), kind="stable")
    pairs = ((int(bad[row]), int(other)) for row, other in zip(*np.divmod(order, len(levels.weight)), strict=True))
    yield from [(one, other) for one, other in pairs if one != other][:_PAIRS_TRIED]


def _shift(frame: Frame, holder: Ints, levels: Levels, a: int, b: int) -> Ints:
    """The shards that should go from tier `a` to tier `b` or the other way: those that help most for their cost, as
    many as bring nearly the whole possible gain, if that is enough."""
    tier = np.where(holder == NOBODY, -1, frame.tier[holder])
    may_enter_a, may_enter_b = (frame.may_enter[frame.constraint, np.argmax(frame.tier == each)] for each in (a, b))
    rows = np.flatnonzero(((tier == a) & may_enter_b) | ((tier == b) & may_enter_a))
    gone = np.where(tier[rows] == a, 1, -1)[:, None] * frame.load[rows]
    before = float(levels.imbalance(a, b))
    help_each = before - levels.imbalance(a, b, gone)
    order = np.argsort(-help_each / frame.cost[rows], kind="stable")[: int((help_each > 0).sum())]
    rows = rows[order]
    left = np.append(before, levels.imbalance(a, b, np.cumsum(gone[order], axis=0)))
    wanted = int((left <= left.min() + _NEARLY * (before - left.min())).argmax())
    return rows[: wanted if before - left[wanted] > _LEAST_GAIN * before else 0]


def _brought(frame: Frame, holder: Ints, rows: Ints, tier: int) -> Ints:
    """Puts the shards on the emptiest containers of the tier; a shard without room apart from its group stays."""
    if len(rows) == 0:
        return holder
    waiting = holder.copy()
    waiting[rows] = NOBODY
    found = assign(replace(frame, may_enter=frame.may_enter & (frame.tier == tier)), waiting, rows)
    return np.where((holder != NOBODY) & (found == NOBODY), holder, found)
