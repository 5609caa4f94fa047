"""Exchanges shards between containers of a tier until each is within its band. Pure.

Each round pairs the containers that are out of band, worst first, with containers that deviate the other way. It makes
the best exchange of each pair: moves first, swaps when no move helps. The candidates depend only on the holders and on
how many rounds in a row found nothing. So what has converged, balanced again, stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.evenness import AIM, EDGE, deviation_by, measure_of
from services.shard_manager.placement.exchanges import LONGEST, Exchanges, Scene, best_exchanges
from services.shard_manager.placement.frame import Frame, budget_left, moves_away, totals
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints

_PATIENCE = 8
"""The search ends after so many rounds in a row that found nothing."""
_PATIENCE_TO_TIGHTEN = 2
_ROUNDS_TO_TIGHTEN = 8
_MOST_ROUNDS = 2_000
_FEWEST_ROUNDS = 48
_SHARDS_EXAMINED = 4_800_000
"""The search ends here, so that a cell whose bands cannot be reached is placed in about a second."""
_PAIRS = 1_500
_PARTNERS = 12
_MANY = 375
_EXAMINED = 24_000
_FEWEST_EXAMINED = 32
_LEAST_GAIN = 0.01
_LEAST_GAIN_OF_MOVES = 0.34
"""The share of a pair's imbalance that an exchange must take away. A move that helps little is worse than a swap that
helps much, but not on a container that is so far off that it needs many moves (`_FAR` bands, or `_NEARLY_EMPTY`). For
moves between such a container and another one, the share is lowered in proportion when a container has more than 48
shards; otherwise an empty container would never be filled."""
_FAR = 3.0
_NEARLY_EMPTY = -0.9


class Balanced(NamedTuple):
    """`has_ended`: every container is within the band, or nothing more was found. `is_cut`: the budget forbade some of
    what was found last."""

    holder: Ints
    has_ended: bool
    is_cut: bool


def tighten(frame: Frame, holder: Ints, band: float) -> Ints:
    """Exchanges shards that have to move in any case, briefly."""
    return _search(frame, holder, band, frame.free, _ROUNDS_TO_TIGHTEN).holder if frame.free.any() else holder


def balance(frame: Frame, holder: Ints) -> Balanced:
    """Exchanges any shards to the band of the problem, within the move budget."""
    rounds = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, _SHARDS_EXAMINED // max(len(holder), 1)))
    return _search(frame, holder, frame.problem.band, np.ones(len(holder), dtype=np.bool_), rounds)


def _search(frame: Frame, holder: Ints, band: float, movable: Flags, rounds: int) -> Balanced:
    is_brief = rounds == _ROUNDS_TO_TIGHTEN
    measure, idle, is_cut = measure_of(frame, holder), 0, False
    cost = np.append(np.where(frame.free, 0.0, frame.cost), 0.0)
    for _ in range(rounds):
        total = totals(frame, holder)
        deviation = deviation_by(frame, measure, holder, total)
        off = np.abs(deviation).max(axis=1, initial=0.0)
        bad = np.flatnonzero(off > band + EDGE)
        if len(bad) == 0 or idle == (_PATIENCE_TO_TIGHTEN if is_brief else _PATIENCE):
            return Balanced(holder, has_ended=True, is_cut=False)
        bad, swaps = bad[np.argsort(-off[bad], kind="stable")], idle > 0
        a, b = _pairs(frame.tier, deviation, bad, turn=max(0, idle - 1))
        if not len(a):  # every pair was tried
            return Balanced(holder, has_ended=True, is_cut=False)
        usual = _LEAST_GAIN if swaps or is_brief else _LEAST_GAIN_OF_MOVES
        is_far = off > _FAR * band
        least_gain = np.where(is_far[a], _LEAST_GAIN, usual)
        if not swaps:
            needs_many = is_far | (deviation.max(axis=1, initial=-1.0) < _NEARLY_EMPTY)
            least_gain /= np.where(needs_many[a] | needs_many[b], _times_longest(holder, len(off), a, b), 1.0)
        scene = Scene(frame, holder, total, measure, deviation, band * AIM, movable, cost, swaps=swaps, salt=idle)
        found = best_exchanges(scene, a, b, least_gain)
        apart = found.only(_apart(found.a, found.b, found.worth))
        chosen = _within_budget(frame, holder, apart)
        is_cut = len(chosen.a) < len(apart.a)
        if is_cut and not len(chosen.a):
            break
        idle = 0 if len(chosen.a) else idle + 1
        holder = _applied(holder, chosen)
    return Balanced(holder, has_ended=False, is_cut=is_cut)


def _times_longest(holder: Ints, containers: int, a: Ints, b: Ints) -> Floats:
    """How many times as many shards the fuller container of each pair holds as are tried at a time; 1 at least."""
    held = np.bincount(holder[holder != NOBODY], minlength=containers)
    return np.maximum(1.0, np.maximum(held[a], held[b]) / LONGEST)


def _pairs(tier: Ints, deviation: Floats, bad: Ints, *, turn: int) -> tuple[Ints, Ints]:
    """Pairs of a container out of band (`bad`, worst first) with another of its tier; each `turn` gives other pairs.

    A partner is the better, the lower the product of the deviations. Few bad containers get many partners each. Many
    get one each, and no container is used twice.
    """
    bad = bad[:_PAIRS]
    each = int(np.clip(_PAIRS // len(bad), 1, _PARTNERS))
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    for number in np.unique(tier[bad]):
        own, members = bad[tier[bad] == number], np.flatnonzero(tier == number)
        columns = _examined(members, len(own), turn)
        product = np.einsum("id,ijd->ij", deviation[own], deviation[columns])
        first, last = (turn * each if columns.shape[1] == len(members) else 0), columns.shape[1] - 1
        ranked = np.argpartition(product, (min(first, last), min(first + each - 1, last)), axis=1)
        nearest = ranked[:, first : first + each]
        partners = np.take_along_axis(columns, nearest, axis=1)
        found = np.stack([np.broadcast_to(own[:, None], partners.shape), partners]).reshape(2, -1)
        pairs.append(found[:, found[0] != found[1]])
    a, b = np.concatenate(pairs, axis=1)
    if len(bad) > _MANY:
        rows = _apart(a, b, -np.einsum("nd,nd->n", deviation[a], deviation[b]))
        a, b = a[rows], b[rows]
    return a, b


def _examined(members: Ints, bad: int, turn: int) -> Ints:
    """The candidate partners of each container out of band: all, or a random sample, so that few share a candidate."""
    count = max(_FEWEST_EXAMINED, _EXAMINED // bad)
    if count >= len(members):
        return np.broadcast_to(members, (bad, len(members)))
    return np.asarray(members[np.random.default_rng(turn).integers(0, len(members), (bad, count))])


def _apart(a: Ints, b: Ints, worth: Floats) -> Ints:
    """The pairs, those of most worth first, such that no container is in two of them."""
    used, chosen = set[int](), []
    for row in np.argsort(-worth, kind="stable").tolist():
        ends = {int(a[row]), int(b[row])}
        if not ends & used:
            used |= ends
            chosen.append(row)
    return np.array(chosen, dtype=np.int64)


def _within_budget(frame: Frame, holder: Ints, found: Exchanges) -> Exchanges:
    """The exchanges, best first, that together are within the budget."""
    more = moves_away(frame, found.out, found.a, found.b) + moves_away(frame, found.back, found.b, found.a)
    left, chosen = budget_left(frame, holder), []
    for row, moves in enumerate(more.tolist()):
        if moves <= left:
            left -= max(0, moves)
            chosen.append(row)
    return found.only(np.array(chosen, dtype=np.int64))


def _applied(holder: Ints, exchanges: Exchanges) -> Ints:
    holder = np.append(holder, NOBODY)
    holder[exchanges.out], holder[exchanges.back] = exchanges.b, exchanges.a
    return holder[:-1]
