"""Selects pairs of containers: one that is out of band with one that deviates the other way. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.problem import Flags, Floats, Ints

_EXAMINED = 24_000
_FEWEST_EXAMINED = 32
_PAIRS_OF_MOVES = 1_500
_PAIRS_OF_SWAPS = 1_000
_MOST = 12
_PASSES = 4


class Pairs(NamedTuple):
    """Pairs of containers, the most promising first."""

    a: Ints
    b: Ints


def options(tier: Ints, deviation: Floats, bad: Ints, *, swaps: bool, turn: int) -> Pairs:
    """Pairs of a container out of band (`bad`, worst first) with another of its tier; each `turn` gives other pairs.

    Few bad containers get many partners each. Many bad containers get one each, and no container is used twice.
    """
    many = _PAIRS_OF_SWAPS if swaps else _PAIRS_OF_MOVES
    bad = bad[:many]
    each = int(np.clip(many // len(bad), 1, _MOST))
    found = [
        _of_tier(np.flatnonzero(tier == number), deviation, bad[tier[bad] == number], each, turn)
        for number in np.unique(tier[bad])
    ]
    a, b, product = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(product, kind="stable")
    a, b = a[order], b[order]
    if len(bad) * 4 > many:
        apart = disjoint(a, b, -product[order], len(tier))
        a, b = a[apart], b[apart]
    return Pairs(a, b)


def disjoint(a: Ints, b: Ints, worth: Floats, containers: int) -> Ints:
    """Pairs, best first, such that no container is in two of them; chosen greedily in a few passes."""
    left = np.argsort(-worth, kind="stable")
    chosen = []
    used = np.zeros(containers, dtype=np.bool_)
    for _ in range(_PASSES):
        if len(left) == 0:
            break
        best = _first_of_both(a[left], b[left], containers)
        chosen.append(left[best])
        used[a[left[best]]] = used[b[left[best]]] = True
        left = left[~used[a[left]] & ~used[b[left]]]
    rows = np.concatenate(chosen) if chosen else left
    return np.asarray(rows[np.argsort(-worth[rows], kind="stable")])


def _first_of_both(a: Ints, b: Ints, containers: int) -> Flags:
    """The pairs that come first for both of their containers."""
    first = np.full(containers, len(a))
    backwards = np.arange(len(a))[::-1]
    ends = np.stack([a[::-1], b[::-1]], axis=1).reshape(-1)
    first[ends] = np.repeat(backwards, 2)
    place = np.arange(len(a))
    return np.asarray((first[a] == place) & (first[b] == place))


def _of_tier(members: Ints, deviation: Floats, bad: Ints, each: int, turn: int) -> tuple[Ints, Ints, Floats]:
    """Containers out of band, a partner for each, and the product of their deviations: the lower, the better."""
    if len(members) < 2:
        return bad[:0], bad[:0], np.zeros(0)
    columns = _examined(members, len(bad), turn)
    product = (deviation[bad][:, None, :] * deviation[columns]).sum(axis=2)
    product = np.where(columns == bad[:, None], np.inf, product)
    turn = turn if columns.shape[1] == len(members) else 0
    low, high = min(turn * each, columns.shape[1]), min((turn + 1) * each, columns.shape[1])
    nearest = _smallest(product, high)[:, low:]
    picked = np.take_along_axis(product, nearest, axis=1).reshape(-1)
    a = np.repeat(bad, high - low)
    b = np.take_along_axis(columns, nearest, axis=1).reshape(-1)
    finite = np.isfinite(picked)
    return a[finite], b[finite], picked[finite]


def _examined(members: Ints, bad: int, turn: int) -> Ints:
    """The candidate partners of each container out of band: all, or a random sample, so that few share a candidate."""
    count = max(_FEWEST_EXAMINED, _EXAMINED // bad)
    if count >= len(members):
        return np.broadcast_to(members, (bad, len(members)))
    return np.asarray(members[np.random.default_rng(turn).integers(0, len(members), (bad, count))])


def _smallest(product: Floats, count: int) -> Ints:
    """Columns of the `count` smallest of each row, in ascending order."""
    if count == product.shape[1]:
        return np.asarray(np.argsort(product, axis=1, kind="stable"))
    some = np.sort(np.argpartition(product, count - 1, axis=1)[:, :count], axis=1)
    order = np.argsort(np.take_along_axis(product, some, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(some, order, axis=1))
