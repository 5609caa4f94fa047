"""Assigns every shard without a holder to a container, many at once. Pure.

The order: important shards, then shards with the fewest containers to choose from, then large shards. In each step the
emptiest containers get one shard each; a large shard goes where its main dimension is least used. Shards that do not
fit there are placed one by one, on any container with room.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from services.shard_manager.placement.evenness import even_scale
from services.shard_manager.placement.frame import Frame, totals
from services.shard_manager.placement.groups import Groups
from services.shard_manager.placement.problem import NOBODY, Floats, Ints


def assign(frame: Frame, holder: Ints, only: Ints | None = None) -> Ints:
    """Places the shards without a holder as far as there is room, or `only` some, as far as there is room apart from
    their groups. No other shard moves."""
    homeless = np.flatnonzero(holder == NOBODY) if only is None else only
    if len(homeless) == 0 or not frame.may_enter.any():
        return holder
    workspace = _Workspace(frame, holder, may_crowd=only is None)
    for rows in workspace.batches(homeless):
        workspace.take(rows)
    return workspace.holder


class _Workspace:
    """The containers while shards are placed. Its arrays change; no other object shares them."""

    def __init__(self, frame: Frame, holder: Ints, *, may_crowd: bool) -> None:
        is_open = frame.tier >= 0
        self.holder = holder.copy()
        self._frame = frame
        self._may_crowd = may_crowd
        self._total = totals(frame, holder)
        self._groups = Groups(frame, np.flatnonzero(holder != NOBODY), holder)
        self._per_unit = np.zeros_like(frame.usable)
        self._per_unit[is_open] = even_scale(frame.usable[is_open], frame.load.sum(axis=0))
        self._size = frame.load * self._per_unit[is_open].mean(axis=0)

    def batches(self, homeless: Ints) -> Iterator[Ints]:
        """The shards in order; those of a batch have one priority and one constraint."""
        priority, constraint = self._frame.problem.shards.priority[homeless], self._frame.constraint[homeless]
        room_for = self._frame.may_enter.sum(axis=1)[constraint]
        order = np.lexsort((homeless, -self._size[homeless].max(axis=1), constraint, room_for, -priority))
        keys = np.stack([priority, constraint])[:, order]
        yield from np.split(homeless[order], np.flatnonzero((np.diff(keys, axis=1) != 0).any(axis=0)) + 1)

    def take(self, rows: Ints) -> None:
        """Places the shards of one batch that fit: many at a time, and then singly those that did not fit so."""
        containers = np.flatnonzero(self._frame.may_enter[self._frame.constraint[rows[0]]])
        if len(containers) == 0:
            return
        step = max(1, len(containers) // 2)
        late = [self._take_together(rows[start : start + step], containers) for start in range(0, len(rows), step)]
        for row in np.concatenate(late):
            self._take_singly(row, containers)

    def _take_together(self, rows: Ints, containers: Ints) -> Ints:
        """Places one shard on each of the emptiest containers; returns the shards that do not fit there."""
        fill = self._total[containers] * self._per_unit[containers]
        emptiest = np.argsort(fill.mean(axis=1) + 0.5 * fill.max(axis=1), kind="stable")[: len(rows)]
        chosen = containers[emptiest[_match(self._size[rows], fill[emptiest])]]
        fits = (self._total[chosen] + self._frame.load[rows] <= self._frame.limit[chosen]).all(axis=1)
        good = fits & ~self._groups.crowds(rows, chosen)
        self._put(rows[good], chosen[good])
        return rows[~good]

    def _take_singly(self, row: int, containers: Ints) -> None:
        """Places a shard where the fullest dimension stays least full; beside its group only if it must."""
        total = self._total[containers] + self._frame.load[row]
        fits = np.flatnonzero((total <= self._frame.limit[containers]).all(axis=1))
        apart = fits[~self._groups.crowds(np.array([row]), containers[fits])]
        among = fits if len(apart) == 0 and self._may_crowd else apart
        if len(among):
            best = among[(total[among] * self._per_unit[containers[among]]).max(axis=1).argmin()]
            self._put(np.array([row]), containers[best : best + 1])

    def _put(self, rows: Ints, containers: Ints) -> None:
        """Each container at most once."""
        self.holder[rows] = containers
        self._total[containers] += self._frame.load[rows]
        self._groups.add(rows, containers)


def _match(size: Floats, fill: Floats) -> Ints:
    """A different row of `fill` [n, D] for each of n shards: those that are large in a dimension go where that is least
    filled."""
    main = size.argmax(axis=1)
    left = np.arange(len(fill))
    chosen = np.empty(len(size), dtype=np.int64)
    for dimension in np.argsort(-np.bincount(main, minlength=size.shape[1]), kind="stable"):
        rows = np.flatnonzero(main == dimension)
        rows = rows[np.argsort(-size[rows, dimension], kind="stable")]
        left = left[np.argsort(fill[left, dimension] + 0.5 * fill[left].max(axis=1), kind="stable")]
        chosen[rows], left = left[: len(rows)], left[len(rows) :]
    return chosen
