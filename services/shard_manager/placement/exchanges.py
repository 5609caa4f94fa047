"""The best exchange between two containers: a move of one shard, or a swap of two. Pure.

An exchange is worth what it takes off the imbalance of the two containers, divided by its cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.evenness import Measure
from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NO_GROUP, NOBODY, Flags, Floats, Ints

CELLS = 60_000
"""How many exchanges are evaluated at a time: few enough to stay in the processor's cache."""
_LEAST_COST = 0.25


class Exchanges(NamedTuple):
    """One for each pair: shard `out` goes from `a` to `b`, `back` from `b` to `a`; `NOBODY`: no shard. `gain` > 0."""

    a: Ints
    b: Ints
    out: Ints
    back: Ints
    gain: Floats
    worth: Floats

    def only(self, chosen: Flags | Ints) -> Exchanges:
        """The chosen ones."""
        return Exchanges(
            self.a[chosen],
            self.b[chosen],
            self.out[chosen],
            self.back[chosen],
            self.gain[chosen],
            self.worth[chosen],
        )


@dataclass(frozen=True)
class Scene:
    """What exchanges are evaluated by, in one round.

    `deviation` [C, D] by `measure`; `aim`: smaller deviations count as none. `movable` [S]; `cost` [S + 1]: 0 for a
    shard that has to move in any case, and 0 at the end for `NOBODY`. `salt` selects other shards of long lists.
    """

    frame: Frame
    holder: Ints
    total: Floats
    measure: Measure
    deviation: Floats
    aim: float
    movable: Flags
    cost: Floats
    salt: int


def imbalance(deviation: Floats, aim: float) -> Floats:
    """How far out of band a container is: the sum over dimensions of the squared excess over `aim`."""
    return np.asarray((np.maximum(np.abs(deviation) - aim, 0) ** 2).sum(axis=-1))


def best_exchanges(scene: Scene, a: Ints, b: Ints, *, swaps: bool, longest: int, least_gain: Floats) -> Exchanges:
    """For each pair (a, b) the exchange that is worth most, if it takes away `least_gain` [pairs] of the imbalance.

    Candidates are moves in both directions and, with `swaps`, swaps; of at most `longest` shards of a container.
    """
    lists = _Lists(scene, np.union1d(a, b), longest)
    width = (lists.width + 1) ** 2 if swaps else 2 * (lists.width + 1)
    step = max(1, CELLS // width)
    parts = [
        _evaluate(scene, lists, a[part], b[part], swaps, least_gain[part])
        for part in (slice(start, start + step) for start in range(0, len(a), step))
    ]
    return Exchanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _Lists:
    """The movable shards of some containers, padded with `NOBODY` to one width, and one more `NOBODY` for "none"."""

    def __init__(self, scene: Scene, containers: Ints, longest: int) -> None:
        count = len(scene.total)
        wanted = np.zeros(count + 1, dtype=np.bool_)
        wanted[containers] = True
        rows = np.flatnonzero(wanted[scene.holder] & scene.movable)
        rows = rows[np.argsort(_mixed(rows, scene.salt), kind="stable")] if scene.salt else rows
        rows = rows[np.argsort(scene.holder[rows], kind="stable")]
        container = scene.holder[rows]
        place = np.arange(len(rows)) - np.searchsorted(container, container)
        short = place < longest
        self.width = int(place[short].max(initial=-1)) + 1
        slot = np.full(count, -1, dtype=np.int64)
        slot[containers] = np.arange(len(containers))
        self._slot = slot
        self._rows = np.full((len(containers), self.width + 1), NOBODY, dtype=np.int64)
        self._rows[slot[container[short]], place[short]] = rows[short]

    def of(self, containers: Ints) -> Ints:
        """[n, width + 1], the last column `NOBODY`."""
        return np.asarray(self._rows[self._slot[containers]])


def _mixed(rows: Ints, salt: int) -> Ints:
    """A fixed shuffle of row numbers, another for each salt."""
    mixed = (rows.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(33)).astype(np.int64))


def _evaluate(scene: Scene, lists: _Lists, a: Ints, b: Ints, swaps: bool, least_gain: Floats) -> Exchanges:
    from_a, from_b = lists.of(a), lists.of(b)
    barred_a = _barred(scene, from_a, b)
    barred_b = _barred(scene, from_b, a)
    if swaps:
        out, back = from_a[:, :, None], from_b[:, None, :]
        barred = barred_a[:, :, None] | barred_b[:, None, :]
    else:
        none_a, none_b = np.full_like(from_a, NOBODY), np.full_like(from_b, NOBODY)
        out, back = np.concatenate([from_a, none_b], axis=1), np.concatenate([none_a, from_b], axis=1)
        barred = np.concatenate([barred_a, barred_b], axis=1)
    gain = _gains(scene, a, b, out, back, barred)
    before = imbalance(scene.deviation[a], scene.aim) + imbalance(scene.deviation[b], scene.aim)
    cost = scene.cost[out] + scene.cost[back]
    enough = gain > (least_gain * before).reshape(-1, *[1] * (gain.ndim - 1))
    worth = np.where(enough, gain / (cost + _LEAST_COST), -np.inf).reshape(len(a), -1)
    best = worth.argmax(axis=1)
    pair = np.arange(len(a))
    cell = (pair, *np.unravel_index(best, gain.shape[1:]))
    chosen_out, chosen_back = np.broadcast_to(out, gain.shape)[cell], np.broadcast_to(back, gain.shape)[cell]
    found = Exchanges(a, b, chosen_out, chosen_back, gain[cell], worth[pair, best])
    return found.only(np.isfinite(found.worth))


def _gains(scene: Scene, a: Ints, b: Ints, out: Ints, back: Ints, barred: Flags) -> Floats:
    """What each exchange takes off the imbalance of its two containers; minus infinity where it is forbidden."""
    shape = np.broadcast_shapes(out.shape, back.shape)
    after = np.zeros(shape)
    forbidden = np.broadcast_to(barred, shape).copy()
    axes = (slice(None), *[None] * (len(shape) - 1))
    for dimension in range(scene.total.shape[1]):
        load = scene.frame.columns[dimension]
        change = load[back] - load[out]
        largest = np.abs(change).max(initial=0.0)
        counted = scene.measure.columns[dimension]
        difference = change if scene.measure.columns is scene.frame.columns else counted[back] - counted[out]
        for container, sign in ((a, 1.0), (b, -1.0)):
            room = scene.frame.limit[container, dimension] - scene.total[container, dimension]
            if room.min() < largest:
                forbidden |= (sign * change > room[axes]) & (sign * change > 0)
            scale = sign * scene.measure.scale[container, dimension][axes]
            off = np.abs(scene.deviation[container, dimension][axes] + difference * scale) - scene.aim
            np.maximum(off, 0, out=off)
            after += off * off
    before = imbalance(scene.deviation[a], scene.aim) + imbalance(scene.deviation[b], scene.aim)
    return np.where(forbidden, -np.inf, before[axes] - after)


def _barred(scene: Scene, rows: Ints, destination: Ints) -> Flags:
    """The shards [n, width] that may not move: the destination has another shard of their group."""
    barred = np.zeros(rows.shape, dtype=np.bool_)
    if scene.frame.spread.max(initial=NO_GROUP) != NO_GROUP:
        group = np.where(rows == NOBODY, NO_GROUP, scene.frame.spread[rows])
        barred |= (group != NO_GROUP) & _has_group(scene, group, destination)
    return barred


def _has_group(scene: Scene, group: Ints, containers: Ints) -> Flags:
    """Whether containers [n] hold a shard of the groups [n, width]."""
    concerned = np.zeros(len(scene.total) + 1, dtype=np.bool_)
    concerned[containers] = True
    rows = np.flatnonzero(concerned[scene.holder] & (scene.frame.spread != NO_GROUP))
    keys = np.sort(scene.frame.spread[rows] * len(scene.total) + scene.holder[rows])
    wanted = group * len(scene.total) + containers[:, None]
    return np.asarray(np.append(keys, -1)[np.searchsorted(keys, wanted)] == wanted)
