"""Phase 2: assigns every shard without a holder to a container, many at once. Pure.

The order: important shards, then shards with the fewest containers to choose from, then large shards. In each step the
emptiest containers get one shard each; a large shard goes where its main dimension is least used. Shards that do not
fit there are placed one by one, on any container with room.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NO_GROUP, NOBODY, Flags, Floats, Ints
from services.shard_manager.placement.solution import Solution, solution_of

_LOOKED_AT_TOGETHER = 128


def assign(frame: Frame, solution: Solution, only: Ints | None = None) -> Solution:
    """Places the shards without a holder, or `only` some of them, as far as there is room. No other shard moves."""
    homeless = np.flatnonzero(solution.holder == NOBODY) if only is None else only
    if len(homeless) == 0 or not frame.may_enter.any():
        return solution
    workspace = _Workspace(frame, solution)
    for rows in _batches(frame, homeless):
        workspace.take(rows)
    return solution_of(frame, workspace.holder)


def _batches(frame: Frame, homeless: Ints) -> Iterator[Ints]:
    """The shards in order; those of a batch have one priority and one constraint."""
    shards = frame.problem.shards
    room_for = frame.may_enter.sum(axis=1)[shards.constraint[homeless]]
    priority, constraint = shards.priority[homeless], shards.constraint[homeless]
    order = np.lexsort((homeless, -_sizes(frame, homeless), constraint, room_for, -priority))
    keys = np.stack([priority, constraint])[:, order]
    starts = np.flatnonzero((np.diff(keys, axis=1) != 0).any(axis=0)) + 1
    yield from np.split(homeless[order], starts)


def _sizes(frame: Frame, rows: Ints) -> Floats:
    """The largest share of an average open container that each shard takes in any dimension."""
    usable = frame.usable[frame.tier >= 0].mean(axis=0)
    per_unit = np.divide(1.0, usable, out=np.zeros_like(usable), where=usable > 0)
    return np.asarray((frame.load[rows] * per_unit).max(axis=1))


class _Workspace:
    """The containers while shards are placed. Its arrays change; no other object shares them."""

    def __init__(self, frame: Frame, solution: Solution) -> None:
        self.holder = solution.holder.copy()
        self._frame = frame
        self._total = solution.total.copy()
        self._per_unit = _per_even_unit(frame)
        self._groups = np.sort(_group_keys(frame, np.flatnonzero(self.holder != NOBODY), self.holder))

    def take(self, rows: Ints) -> None:
        """Places the shards of one batch that fit."""
        may_enter = self._frame.may_enter[self._frame.problem.shards.constraint[rows[0]]]
        containers = np.flatnonzero(may_enter)
        if len(containers):
            self._take_singly(self._take_together(rows, containers), containers)

    def _take_together(self, rows: Ints, containers: Ints) -> Ints:
        """Places many at a time; returns the shards that did not fit on the container chosen for them."""
        late = []
        step = max(1, len(containers) // 2)
        for start in range(0, len(rows), step):
            turn = rows[start : start + step]
            fill = self._total[containers] * self._per_unit[containers]
            emptiest = np.argsort(fill.mean(axis=1) + 0.5 * fill.max(axis=1), kind="stable")[: len(turn)]
            chosen = _match(self._frame.load[turn], containers[emptiest], fill[emptiest], self._per_unit)
            good = self._fits(turn, chosen) & ~self._crowds(turn, chosen)
            self._put(turn[good], chosen[good])
            late.append(turn[~good])
        return np.concatenate(late) if late else rows

    def _take_singly(self, rows: Ints, containers: Ints) -> None:
        """Places each shard where the fullest dimension stays least full; beside its group only if it must."""
        load, limit = self._frame.load, self._frame.limit[containers]
        for start in range(0, len(rows), _LOOKED_AT_TOGETHER):
            some = rows[start : start + _LOOKED_AT_TOGETHER]
            after = self._total[containers] + load[some][:, None, :]
            for row in some[_anywhere(after, limit)]:
                total = self._total[containers] + load[row]
                fits = np.flatnonzero((total <= limit).all(axis=1))
                if len(fits) == 0:
                    continue
                alone = fits[~self._crowds(np.full(len(fits), row), containers[fits])]
                among = alone if len(alone) else fits
                best = among[(total[among] * self._per_unit[containers[among]]).max(axis=1).argmin()]
                self._put(np.array([row]), containers[best : best + 1])

    def _fits(self, rows: Ints, containers: Ints) -> Flags:
        total = self._total[containers] + self._frame.load[rows]
        return np.asarray((total <= self._frame.limit[containers]).all(axis=1))

    def _crowds(self, rows: Ints, containers: Ints) -> Flags:
        """Whether the container already has a shard of the same group."""
        if len(self._groups) == 0:
            return np.zeros(len(rows), dtype=np.bool_)
        keys = self._frame.spread[rows] * len(self._frame.usable) + containers
        found = np.searchsorted(self._groups, keys)
        known = np.append(self._groups, -1)[found] == keys
        return np.asarray(known & (self._frame.spread[rows] != NO_GROUP))

    def _put(self, rows: Ints, containers: Ints) -> None:
        """Each container at most once."""
        self.holder[rows] = containers
        self._total[containers] += self._frame.load[rows]
        keys = _group_keys(self._frame, rows, self.holder)
        if len(keys):
            keys = np.sort(keys)
            self._groups = np.insert(self._groups, np.searchsorted(self._groups, keys), keys)


def _anywhere(total: Floats, limit: Floats) -> Flags:
    """Whether a total [n, C, D] is within the limits [C, D] of any container."""
    within = np.asarray((total <= limit).all(axis=2))
    return np.asarray(within.any(axis=1))


def _group_keys(frame: Frame, rows: Ints, holder: Ints) -> Ints:
    grouped = rows[frame.spread[rows] != NO_GROUP]
    return np.asarray(frame.spread[grouped] * len(frame.usable) + holder[grouped])


def _per_even_unit(frame: Frame) -> Floats:
    """Factors [C, D] that turn a container's load into a share of what it has when all shards are spread evenly."""
    capacity = frame.usable[frame.tier >= 0].sum(axis=0)
    level = np.divide(frame.load.sum(axis=0), capacity, out=np.zeros_like(capacity), where=capacity > 0)
    even: Floats = frame.usable * level
    return np.asarray(np.divide(1.0, even, out=np.zeros_like(even), where=even > 0))


def _match(load: Floats, containers: Ints, fill: Floats, per_unit: Floats) -> Ints:
    """A different container for each shard: shards that are large in a dimension go where that is least filled.

    `containers` and `fill` [n, D] are as many as `load` has rows, or fewer only when there are no more.
    """
    size = load * per_unit[containers].mean(axis=0)
    main = size.argmax(axis=1)
    free = np.ones(len(containers), dtype=np.bool_)
    chosen = np.empty(len(load), dtype=np.int64)
    for dimension in np.argsort(-np.bincount(main, minlength=load.shape[1]), kind="stable"):
        rows = np.flatnonzero(main == dimension)
        rows = rows[np.argsort(-size[rows, dimension], kind="stable")]
        left = np.flatnonzero(free)
        order = np.argsort(fill[left, dimension] + 0.5 * fill[left].max(axis=1), kind="stable")
        taken = left[order[: len(rows)]]
        free[taken] = False
        chosen[rows] = containers[taken]
    return chosen
