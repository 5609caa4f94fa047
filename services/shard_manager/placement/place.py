"""Where each shard goes: keep what may stay, assign the rest, balance. Pure; each phase ends in a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from services.shard_manager.placement import checks
from services.shard_manager.placement.assign import assign
from services.shard_manager.placement.balance import Balanced, balance, tighten
from services.shard_manager.placement.brute_force import brute_force
from services.shard_manager.placement.evenness import (
    AIM,
    EDGE,
    band_scale,
    deviation_by,
    deviations,
    imbalance,
    measure_of,
)
from services.shard_manager.placement.frame import Frame, budget_left, frame_of, holds, totals
from services.shard_manager.placement.problem import NOBODY, Floats, Ints, Problem, State
from services.shard_manager.placement.reasons import Unplaceable, explain
from services.shard_manager.placement.rebalance_tiers import rebalance_tiers
from services.shard_manager.placement.relieve import relieve
from services.shard_manager.placement.room import make_room

_TIGHT = 0.5
"""Shards that have to move anyway are balanced to this share of the band, which saves moves later."""
_MOST_PASSES = 50
_WORTH_GOING_ON = 0.1
"""The share of the imbalance that a placement must take away for another placement to be worth while soon."""


@dataclass(frozen=True)
class Placement:
    """The result of a placement.

    `holder` [S]: the container of each shard, an index, or `NOBODY`; `assignment`: the same by number and name, with
    unplaced shards left out. `moved`: the numbers of the shards that leave a container of the problem: first those
    that have to go, then those that leave the containers furthest from even. `deviation` [C, D]: 0.1 is 10 % above the
    tier's mean; 0 for containers that are not open. `converged`: False when the move budget or the round limit ended
    the search with more to do. `worth_continuing`: not converged, and another placement soon is worth while.
    """

    assignment: dict[int, str]
    unplaceable: tuple[Unplaceable, ...]
    holder: Ints
    moved: Ints
    deviation: np.ndarray
    converged: bool
    worth_continuing: bool

    @property
    def worst_band(self) -> float:
        """The largest deviation of any container in any dimension."""
        return float(np.abs(self.deviation).max(initial=0.0))


def place(problem: Problem, previous: Mapping[int, str]) -> Placement:
    """Assigns every shard to a container, if there is one for it, and moves as few shards as possible.

    `previous`: shard number to container name; unknown shards and containers are ignored. Constraints and capacity less
    headroom always hold. The result depends on the values of the arguments only. Placing again what a converged
    placement assigned moves nothing.
    """
    frame = frame_of(problem, home_of(problem, previous))
    kept = relieve(frame, np.where(holds(frame, frame.may_stay, frame.home), frame.home, NOBODY))
    checks.check_holders(frame, kept)
    frame = replace(frame, free=kept == NOBODY)
    start, (holder, has_ended, is_cut) = _place_and_balance(frame, kept)
    checks.check_counted(frame, measure_of(frame, holder))
    converged = has_ended and not is_cut and not _has_more_to_do(frame, holder)
    goes_on = not converged and (is_cut or _has_gained(frame, start, holder))
    return _placement(frame, holder, converged=converged, goes_on=goes_on)


def home_of(problem: Problem, previous: Mapping[int, str]) -> Ints:
    """Where each shard was [S]: an index into the problem's containers, or `NOBODY`."""
    index = {name: place for place, name in enumerate(problem.containers.names)}
    names = map(previous.get, problem.shards.ids.tolist())
    homes = (index.get(name, NOBODY) if name is not None else NOBODY for name in names)
    return np.fromiter(homes, dtype=np.int64, count=len(problem.shards.ids))


def _place_and_balance(frame: Frame, kept: Ints) -> tuple[Ints, Balanced]:
    """Places and balances in turn until neither changes anything, since each may give the other more to do.

    The holders before the last balance, and what came of it.
    """
    holder = start = kept
    for number in range(_MOST_PASSES):
        before = holder
        assigned = assign(frame, holder)
        checks.check_only_homeless_placed(holder, assigned)
        placed = make_room(frame, assigned)
        checks.check_holders(frame, placed)
        start, is_cut = rebalance_tiers(frame, placed)
        start = tighten(frame, start, frame.problem.band * _TIGHT) if number == 0 else start
        balanced = balance(frame, start)
        holder = brute_force(frame, balanced.holder)
        checks.check_same_placed(placed, holder)
        checks.check_holders(frame, holder)
        may_place_more = number == 0 and bool((holder == NOBODY).any())
        if np.array_equal(before, holder) or not (balanced.has_ended or may_place_more):
            return start, Balanced(holder, balanced.has_ended, is_cut or balanced.is_cut)
    return start, Balanced(holder, has_ended=False, is_cut=True)


def _has_gained(frame: Frame, start: Ints, holder: Ints) -> bool:
    """Whether the search took so much away that another one is worth while."""
    before, after = (imbalance(_deviation(frame, each), frame.problem.band * AIM).sum() for each in (start, holder))
    return bool(after < before * (1 - _WORTH_GOING_ON))


def _has_more_to_do(frame: Frame, holder: Ints) -> bool:
    """Whether another placement, with a budget of its own, might do more."""
    is_spent = frame.problem.move_budget not in (None, budget_left(frame, holder))
    return is_spent and bool((np.abs(_deviation(frame, holder)) > frame.problem.band + EDGE).any())


def _may_differ(frame: Frame, holder: Ints) -> bool:
    """Whether another placement might end otherwise. One that changed nothing would end the same way again, since it
    depends on the same values, unless it had no budget at all, as after a fail-over."""
    return frame.problem.move_budget == 0 or not np.array_equal(holder, frame.home)


def _deviation(frame: Frame, holder: Ints) -> Floats:
    return deviation_by(frame, measure_of(frame, holder), holder, totals(frame, holder))


def _placement(frame: Frame, holder: Ints, *, converged: bool, goes_on: bool) -> Placement:
    total = totals(frame, holder)
    left = _left_on_draining(frame, holder)
    reasons = explain(frame, total, np.flatnonzero(holder == NOBODY), left)
    holder = np.where(left != NOBODY, left, holder)
    problem, placed = frame.problem, np.flatnonzero(holder != NOBODY)
    names = np.array(problem.containers.names, dtype=object)
    return Placement(
        assignment=dict(zip(problem.shards.ids[placed].tolist(), names[holder[placed]].tolist(), strict=True)),
        unplaceable=reasons,
        holder=holder,
        moved=problem.shards.ids[_moved(frame, holder)],
        deviation=deviations(band_scale(frame, total), total),
        converged=converged,
        worth_continuing=goes_on and _may_differ(frame, holder),
    )


def _moved(frame: Frame, holder: Ints) -> Ints:
    """The rows of the shards that leave a container, in the order in which they should."""
    total, home = totals(frame, frame.home), frame.home
    badness = np.abs(deviations(band_scale(frame, total), total)).max(axis=1, initial=0.0)
    rows = np.flatnonzero((home != NOBODY) & (holder != home))
    return np.asarray(rows[np.lexsort((rows, -badness[home[rows]], ~frame.free[rows]))])


def _left_on_draining(frame: Frame, holder: Ints) -> Ints:
    """The draining container [S] on which a shard without a place goes on running; or `NOBODY`.

    No shard stays where the container would be over capacity or the shard's constraint does not hold.
    """
    is_draining = frame.problem.containers.state == State.DRAINING
    stays = (holder == NOBODY) & holds(frame, frame.satisfies & is_draining, frame.home)
    return relieve(frame, np.where(stays, frame.home, NOBODY))
