"""Phase 3: exchanges shards between containers of a tier until each is within its band. Pure.

Each round pairs the containers that are out of band, worst first, with containers that deviate the other way. It makes
the best exchange of each pair: moves first, swaps when no move helps. The candidates depend only on the solution and on
how many rounds in a row found nothing. So a converged solution, balanced again, stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.evenness import Measure, deviation_by, measure_of
from services.shard_manager.placement.exchanges import Exchanges, Scene, best_exchanges, imbalance
from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.partners import disjoint, options
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints
from services.shard_manager.placement.solution import Solution, solution_of

_PATIENCE = 8
_MOST_ROUNDS = 2_000
_FEWEST_ROUNDS = 48
_SHARDS_EXAMINED = 4_800_000
"""The search ends here, so that a cell whose bands cannot be reached is placed in about a second."""
_PATIENCE_TO_TIGHTEN = 2
_ROUNDS_TO_TIGHTEN = 8
_INNER = 0.9
"""Exchanges aim at this share of the band, so that containers do not end on its edge."""
EDGE = 1e-9
"""What rounding may add to a deviation."""
_LEAST_GAIN = 0.01
_LEAST_GAIN_OF_MOVES = 0.34
_WORTH_GOING_ON = 0.1
"""The share of the imbalance that a placement must take away for another placement to be worth while soon."""
_FAR = 3.0
"""A container that is off by so many bands needs many moves, and each move may be a small part of them."""
_LONGEST = 24
_LONGEST_OF_FEW = 48


class Costs(NamedTuple):
    """What counts as a move: `home` [S]: where each shard was; `free` [S]: the shards that have to move in any case."""

    home: Ints
    free: Flags


class Balanced(NamedTuple):
    """`converged`: the search found nothing more to do; False when the budget or the round limit ended it.
    `worth_continuing`: the budget ended the search, or it gained so much that another one is worth while."""

    solution: Solution
    converged: bool
    worth_continuing: bool


class _Search(NamedTuple):
    """`patience`: how many rounds in a row may find nothing before the search ends."""

    movable: Flags
    band: float
    rounds: int
    patience: int
    least_gain_of_moves: float


def tighten(frame: Frame, solution: Solution, costs: Costs, band: float) -> Solution:
    """Exchanges shards that have to move in any case, to a narrower band, which saves moves later."""
    if not costs.free.any():
        return solution
    search = _Search(costs.free, band, _ROUNDS_TO_TIGHTEN, _PATIENCE_TO_TIGHTEN, _LEAST_GAIN)
    return _exchange(frame, solution, costs, search, None).solution


def balance(frame: Frame, solution: Solution, costs: Costs, budget: int | None) -> Balanced:
    """Exchanges any shards to the band of the problem; moves at most `budget` of them away from home."""
    count = len(costs.free)
    rounds = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, _SHARDS_EXAMINED // max(count, 1)))
    search = _Search(np.ones(count, dtype=np.bool_), frame.problem.band, rounds, _PATIENCE, _LEAST_GAIN_OF_MOVES)
    return _exchange(frame, solution, costs, search, budget)


def _exchange(frame: Frame, solution: Solution, costs: Costs, search: _Search, budget: int | None) -> Balanced:
    idle = 0
    cut = ended = False
    start, measure = solution, measure_of(frame, solution)
    for _ in range(search.rounds):
        exchanges = _round(frame, solution, measure, costs, search, idle)
        if exchanges is None:
            cut, ended = False, True
            break
        allowed = exchanges if budget is None else _within_budget(exchanges, costs, budget)
        cut = len(allowed.a) < len(exchanges.a)
        if len(allowed.a) == 0:
            idle += 1
            ended = cut or idle >= search.patience
            if ended:
                break
            continue
        idle = 0
        holder = _applied(solution.holder, allowed)
        if budget is not None:
            budget -= _count_away(costs, holder) - _count_away(costs, solution.holder)
        solution = solution_of(frame, holder)
    left, before = (
        float(imbalance(deviation_by(frame, measure, each), search.band).sum()) for each in (solution, start)
    )
    return Balanced(solution, ended and not cut, cut or left < before * (1 - _WORTH_GOING_ON))


def _round(
    frame: Frame, solution: Solution, measure: Measure, costs: Costs, search: _Search, idle: int
) -> Exchanges | None:
    """The exchanges of one round; None when every container is within the band."""
    deviation = deviation_by(frame, measure, solution)
    badness = np.where(frame.tier >= 0, np.abs(deviation).max(axis=1), 0)
    bad = np.flatnonzero(badness > search.band + EDGE)
    if len(bad) == 0:
        return None
    bad = bad[np.argsort(-badness[bad], kind="stable")]
    swaps = idle > 0
    pairs = options(frame.tier, deviation, bad, swaps=swaps, turn=max(0, idle - 1))
    if len(pairs.a) == 0:
        return _NONE
    scene = Scene(
        frame=frame,
        holder=solution.holder,
        total=solution.total,
        measure=measure,
        deviation=deviation,
        aim=search.band * _INNER,
        movable=search.movable,
        cost=np.append(np.where(costs.free, 0.0, frame.cost), 0.0),
        salt=idle,
    )
    found = best_exchanges(
        scene,
        pairs.a,
        pairs.b,
        swaps=swaps,
        longest=_LONGEST_OF_FEW if len(bad) < 100 else _LONGEST,
        least_gain=_least_gain(badness[pairs.a] / search.band, _LEAST_GAIN if swaps else search.least_gain_of_moves),
    )
    return found.only(disjoint(found.a, found.b, found.worth, len(frame.tier)))


def _least_gain(badness: Floats, usual: float) -> Floats:
    """The share of a pair's imbalance that an exchange must take away, by how many bands the first container is off.

    Where moves count, a move that helps little is worse than a swap that helps much.
    """
    return np.where(badness > _FAR, _LEAST_GAIN, usual)


_EMPTY = np.zeros(0, dtype=np.int64)
_NONE = Exchanges(_EMPTY, _EMPTY, _EMPTY, _EMPTY, np.zeros(0), np.zeros(0))


def _within_budget(exchanges: Exchanges, costs: Costs, budget: int) -> Exchanges:
    """The exchanges, best first, that together move no more than `budget` shards away from home."""
    more = np.zeros(len(exchanges.a), dtype=np.int64)
    for shards, source, destination in (
        (exchanges.out, exchanges.a, exchanges.b),
        (exchanges.back, exchanges.b, exchanges.a),
    ):
        home = _at(costs.home, shards)
        counts = (shards != NOBODY) & ~_at(costs.free, shards)
        more += np.where(counts, (destination != home).astype(np.int64) - (source != home), 0)
    allowed = []
    for place, moves in enumerate(more.tolist()):
        if moves <= budget:
            allowed.append(place)
            budget -= max(0, moves)
    return exchanges.only(np.array(allowed, dtype=np.int64))


def _count_away(costs: Costs, holder: Ints) -> int:
    """How many shards were moved for balance alone."""
    return int(((holder != costs.home) & ~costs.free).sum())


def _applied(holder: Ints, exchanges: Exchanges) -> Ints:
    holder = holder.copy()
    out, back = exchanges.out != NOBODY, exchanges.back != NOBODY
    holder[exchanges.out[out]] = exchanges.b[out]
    holder[exchanges.back[back]] = exchanges.a[back]
    return holder


def _at(column: Floats | Ints | Flags, rows: Ints) -> Ints:
    """The column's values at these rows; an arbitrary value for `NOBODY`."""
    return np.asarray(column[rows]) if len(column) else np.zeros(len(rows), dtype=np.int64)
