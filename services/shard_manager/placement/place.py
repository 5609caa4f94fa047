"""Where each shard goes: keep what may stay, assign the rest, balance. Pure; each phase ends in a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement import checks
from services.shard_manager.placement.assign import assign
from services.shard_manager.placement.balance import Balanced, Costs, balance, tighten
from services.shard_manager.placement.brute_force import brute_force
from services.shard_manager.placement.evenness import deviation_by, measure_of
from services.shard_manager.placement.frame import Frame, frame_of
from services.shard_manager.placement.keep import keep, relieve
from services.shard_manager.placement.problem import NOBODY, Ints, Problem, State
from services.shard_manager.placement.reasons import Unplaceable, explain
from services.shard_manager.placement.rebalance_tiers import rebalance_tiers
from services.shard_manager.placement.room import make_room
from services.shard_manager.placement.solution import Solution, band_scale, deviations, solution_of

_TIGHT = 0.5
"""Shards that have to move anyway are balanced to this share of the band, which saves moves later."""
_MOST_PASSES = 50


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
    home = home_of(problem, previous)
    frame = frame_of(problem)
    kept = keep(frame, home)
    checks.check_constraints(frame, kept, home)
    relieved = relieve(frame, kept)
    checks.check_capacity(frame, relieved)
    costs = Costs(home, relieved.holder == NOBODY)
    balanced = _place_and_balance(frame, relieved, costs)
    checks.check_counted(frame, measure_of(frame, balanced.solution))
    return _placement(frame, balanced, home, costs)


def home_of(problem: Problem, previous: Mapping[int, str]) -> Ints:
    """Where each shard was [S]: an index into the problem's containers, or `NOBODY`."""
    index = {name: place for place, name in enumerate(problem.containers.names)}
    names = map(previous.get, problem.shards.ids.tolist())
    homes = (index.get(name, NOBODY) if name is not None else NOBODY for name in names)
    return np.fromiter(homes, dtype=np.int64, count=len(problem.shards.ids))


def _place_and_balance(frame: Frame, relieved: Solution, costs: Costs) -> Balanced:
    """Places and balances in turn until neither changes anything, since each may give the other more to do."""
    solution = relieved
    for number in range(_MOST_PASSES):
        before = solution.holder
        placed = assign(frame, solution)
        checks.check_only_homeless_placed(solution, placed)
        roomy = make_room(frame, placed)
        checks.check_capacity(frame, roomy)
        checks.check_constraints(frame, roomy, costs.home)
        rebalanced, cut = rebalance_tiers(frame, roomy, costs, _budget_left(frame, costs, roomy))
        tight = tighten(frame, rebalanced, costs, frame.problem.band * _TIGHT) if number == 0 else rebalanced
        balanced = balance(frame, tight, costs, _budget_left(frame, costs, tight))
        solution = brute_force(frame, balanced.solution, costs, _budget_left(frame, costs, balanced.solution))
        checks.check_same_placed(roomy, solution)
        checks.check_capacity(frame, solution)
        checks.check_constraints(frame, solution, costs.home)
        may_place_more = number == 0 and bool((solution.holder == NOBODY).any())
        if np.array_equal(before, solution.holder) or not (balanced.converged or may_place_more):
            converged = balanced.converged and not cut and not _has_more_to_do(frame, costs, solution)
            return Balanced(solution, converged, cut or balanced.worth_continuing)
    return Balanced(solution, False, True)


def _has_more_to_do(frame: Frame, costs: Costs, solution: Solution) -> bool:
    """Whether another placement, with a budget of its own, might do more."""
    left = _budget_left(frame, costs, solution)
    deviation = np.abs(deviation_by(frame, measure_of(frame, solution), solution)).max(initial=0.0)
    return left != frame.problem.move_budget and bool(deviation > frame.problem.band)


def _budget_left(frame: Frame, costs: Costs, solution: Solution) -> int | None:
    """The budget less the moves that were made."""
    if frame.problem.move_budget is None:
        return None
    both = (solution.holder != NOBODY) & (costs.home != NOBODY)
    moved = int((both & (solution.holder != costs.home)).sum())
    return max(0, frame.problem.move_budget - moved)


def _placement(frame: Frame, balanced: Balanced, home: Ints, costs: Costs) -> Placement:
    solution = balanced.solution
    unplaced = np.flatnonzero(solution.holder == NOBODY)
    left = _left_on_draining(frame, solution, home)
    holder = np.where(left != NOBODY, left, solution.holder)
    problem, placed = frame.problem, np.flatnonzero(holder != NOBODY)
    names = np.array(problem.containers.names, dtype=object)
    deviation = deviations(band_scale(frame, solution.total), solution.total)
    return Placement(
        assignment=dict(zip(problem.shards.ids[placed].tolist(), names[holder[placed]].tolist(), strict=True)),
        unplaceable=explain(frame, solution, unplaced, left),
        holder=holder,
        moved=problem.shards.ids[_moved(frame, home, holder, costs)],
        deviation=deviation,
        converged=balanced.converged,
        worth_continuing=not balanced.converged and balanced.worth_continuing,
    )


def _moved(frame: Frame, home: Ints, holder: Ints, costs: Costs) -> Ints:
    """The rows of the shards that leave a container, in the order in which they should."""
    total = solution_of(frame, home).total
    badness = np.abs(deviations(band_scale(frame, total), total)).max(axis=1, initial=0.0)
    rows = np.flatnonzero((home != NOBODY) & (holder != home))
    return np.asarray(rows[np.lexsort((rows, -badness[home[rows]], ~costs.free[rows]))])


def _left_on_draining(frame: Frame, solution: Solution, home: Ints) -> Ints:
    """The draining container [S] on which a shard without a place goes on running; or `NOBODY`.

    No shard stays where the container would be over capacity or the shard's constraint does not hold.
    """
    state = np.append(frame.problem.containers.state, State.OPEN)
    satisfied = np.append(frame.satisfies, np.zeros((len(frame.satisfies), 1), dtype=np.bool_), axis=1)
    stays = (solution.holder == NOBODY) & (state[home] == State.DRAINING)
    stays &= satisfied[frame.problem.shards.constraint, home]
    return relieve(frame, solution_of(frame, np.where(stays, home, NOBODY))).holder
