"""The best exchange between two containers: a move of one shard, or a swap of two. Pure.

An exchange is worth what it takes off the imbalance of the two containers, divided by its cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.evenness import Measure, imbalance
from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.groups import Groups
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints

_CELLS = 60_000
"""How many exchanges are evaluated at a time: few enough to stay in the processor's cache."""
_LEAST_COST = 0.25
LONGEST = 48
"""How many shards of a container are tried to move."""
_LONGEST_TO_SWAP = 24


class Exchanges(NamedTuple):
    """One for each pair: shard `out` goes from `a` to `b`, `back` from `b` to `a`; `NOBODY`: no shard."""

    a: Ints
    b: Ints
    out: Ints
    back: Ints
    worth: Floats

    def only(self, chosen: Flags | Ints) -> Exchanges:
        """The chosen ones."""
        return Exchanges(self.a[chosen], self.b[chosen], self.out[chosen], self.back[chosen], self.worth[chosen])


@dataclass(frozen=True)
class Scene:
    """What exchanges are evaluated by, in one round.

    `total` [C, D] and `deviation` [C, D] of the holders; `aim`: smaller deviations count as none. `movable` [S]; `cost`
    [S + 1]: 0 for a shard that has to move in any case, and for `NOBODY`. `swaps`: also of two shards. `salt` selects
    other shards of long lists.
    """

    frame: Frame
    holder: Ints
    total: Floats
    measure: Measure
    deviation: Floats
    aim: float
    movable: Flags
    cost: Floats
    swaps: bool
    salt: int


def best_exchanges(scene: Scene, a: Ints, b: Ints, least_gain: Floats) -> Exchanges:
    """For each pair (a, b) the exchange that is worth most, if it takes away `least_gain` [pairs] of the imbalance."""
    shards, groups = _shards_of(scene, np.union1d(a, b))
    width = shards.shape[1]
    step = max(1, _CELLS // (width**2 if scene.swaps else 2 * width))
    slices = [slice(start, start + step) for start in range(0, max(len(a), 1), step)]
    parts = [_evaluate(scene, shards, groups, a[part], b[part], least_gain[part]) for part in slices]
    return Exchanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _shards_of(scene: Scene, containers: Ints) -> tuple[Ints, Groups]:
    """The movable shards of each container [C, width], padded with `NOBODY`, at least one; and the groups of all."""
    wanted = np.zeros(len(scene.total) + 1, dtype=np.bool_)
    wanted[containers] = True
    held = np.flatnonzero(wanted[scene.holder])
    rows = held[scene.movable[held]]
    rows = np.random.default_rng(scene.salt).permutation(rows) if scene.salt else _extremes_first(scene, rows)
    rows = rows[np.argsort(scene.holder[rows], kind="stable")]
    container = scene.holder[rows]
    place = np.arange(len(rows)) - np.searchsorted(container, container)
    short = place < (_LONGEST_TO_SWAP if scene.swaps else LONGEST)
    shards = np.full((len(scene.total), int(place[short].max(initial=-1)) + 2), NOBODY, dtype=np.int64)
    shards[container[short], place[short]] = rows[short]
    return shards, Groups(scene.frame, held, scene.holder)


def _extremes_first(scene: Scene, rows: Ints) -> Ints:
    """Of each container with more shards than are tried: its largest and its smallest in turn, by the share of its even
    load in the greatest dimension. Few large ones bring a container near its even load, small ones bring it there."""
    is_many = np.bincount(scene.holder[rows], minlength=1)[scene.holder[rows]] > LONGEST
    few, many = rows[~is_many], rows[is_many]
    scale = scene.measure.scale[scene.holder[many]]
    shares = [column[many] * factor for column, factor in zip(scene.measure.columns, scale.T, strict=True)]
    many = many[np.lexsort((-np.max(shares, axis=0, initial=0.0), scene.holder[many]))]
    holder = scene.holder[many]
    from_largest = np.arange(len(many)) - np.searchsorted(holder, holder)
    from_smallest = np.searchsorted(holder, holder, side="right") - 1 - np.arange(len(many))
    turn = np.minimum(2 * from_largest, 2 * from_smallest + 1)
    return np.concatenate([few, many[np.lexsort((turn, holder))]])


def _evaluate(scene: Scene, shards: Ints, groups: Groups, a: Ints, b: Ints, least_gain: Floats) -> Exchanges:
    out, back = shards[a], shards[b]
    barred_out, barred_back = groups.crowds(out, b[:, None]), groups.crowds(back, a[:, None])
    if scene.swaps:
        out, back = out[:, :, None], back[:, None, :]
        barred = barred_out[:, :, None] | barred_back[:, None, :]
    else:
        none = np.full_like(out, NOBODY)
        out, back = np.concatenate([out, none], axis=1), np.concatenate([none, back], axis=1)
        barred = np.concatenate([barred_out, barred_back], axis=1)
    before = imbalance(scene.deviation[a], scene.aim) + imbalance(scene.deviation[b], scene.aim)
    cells = int(np.prod(barred.shape[1:]))
    axes = (slice(None), *[None] * (barred.ndim - 1))
    gain = before[axes] - _after(scene, a[axes], b[axes], out, back)
    enough = (gain > (least_gain * before)[axes]) & ~barred
    worth = np.where(enough, gain / (scene.cost[out] + scene.cost[back] + _LEAST_COST), -np.inf)
    best = worth.reshape(len(a), cells).argmax(axis=1)
    cell = np.arange(len(a)), *np.unravel_index(best, barred.shape[1:])
    found = Exchanges(a, b, *(np.broadcast_to(each, barred.shape)[cell] for each in (out, back, worth)))
    return found.only(np.isfinite(found.worth))


def _after(scene: Scene, a: Ints, b: Ints, out: Ints, back: Ints) -> Floats:
    """The imbalance of both containers after each exchange; infinite where one of them has no room."""
    after = np.zeros(np.broadcast_shapes(out.shape, back.shape))
    for dimension in range(scene.total.shape[1]):
        load, counted = scene.frame.columns[dimension], scene.measure.columns[dimension]
        change = load[back] - load[out]
        largest = np.abs(change).max(initial=0.0)
        difference = change if scene.measure.columns is scene.frame.columns else counted[back] - counted[out]
        for container, sign in ((a, 1.0), (b, -1.0)):
            room = scene.frame.limit[container, dimension] - scene.total[container, dimension]
            if room.min(initial=np.inf) < largest:
                after[(sign * change > room) & (sign * change > 0)] = np.inf
            scale = sign * scene.measure.scale[container, dimension]
            off = np.abs(scene.deviation[container, dimension] + difference * scale) - scene.aim
            np.maximum(off, 0, out=off)
            after += off * off
    return after
