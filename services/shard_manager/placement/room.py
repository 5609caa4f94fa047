"""Makes room for shards that fit nowhere: other shards move on, or give way to more important ones. Pure."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints
from services.shard_manager.placement.solution import Solution, solution_of

_TRIES_TO_REPACK = 100
_CONTAINERS_TRIED = 8
_OTHERS_TRIED = 32


def make_room(frame: Frame, solution: Solution) -> Solution:
    """Places waiting shards, the most important first: other shards move elsewhere, or less important ones give way.

    A shard that gave way may have no holder afterwards. Repacking is a search, so it is tried for 100 shards only.
    """
    waiting = _most_important_first(frame, np.flatnonzero(solution.holder == NOBODY))
    least = frame.problem.shards.priority[solution.holder != NOBODY].min(initial=np.iinfo(np.int64).max)
    if len(waiting) == 0:
        return solution
    workspace = _Workspace(frame, solution)
    for count, shard in enumerate(waiting):
        may_preempt = bool(frame.problem.shards.priority[shard] > least)
        if count >= _TRIES_TO_REPACK and not may_preempt:
            break
        workspace.place(int(shard), repack=count < _TRIES_TO_REPACK, preempt=may_preempt)
    return solution_of(frame, workspace.holder)


def _most_important_first(frame: Frame, rows: Ints) -> Ints:
    size = frame.load[rows].sum(axis=1)
    return np.asarray(rows[np.lexsort((rows, size, -frame.problem.shards.priority[rows]))])


class _Workspace:
    """The holders while room is made. Its arrays change; no other object shares them."""

    def __init__(self, frame: Frame, solution: Solution) -> None:
        self.holder = solution.holder.copy()
        self._frame = frame
        self._total = solution.total.copy()

    def place(self, shard: int, *, repack: bool, preempt: bool) -> None:
        """Places one shard, if a way is found."""
        enterable = np.flatnonzero(self._may_enter(shard))
        enterable = enterable[(self._frame.load[shard] <= self._frame.limit[enterable]).all(axis=1)]
        missing = np.maximum(self._total[enterable] + self._frame.load[shard] - self._frame.limit[enterable], 0)
        per_unit = 1 / np.where(self._frame.usable > 0, self._frame.usable, 1.0)
        shares = (missing * per_unit[enterable]).sum(axis=1)
        for place in np.argsort(shares, kind="stable")[:_CONTAINERS_TRIED]:
            container = int(enterable[place])
            if repack and self._repack(shard, container):
                return
            if preempt and self._preempt(shard, container):
                return

    def _repack(self, shard: int, container: int) -> bool:
        """Moves other shards from the container to containers with room."""
        held = np.flatnonzero(self.holder == container)
        others = self._relieving(shard, container, held)[:_OTHERS_TRIED]
        return self._vacate(shard, container, others, give_up=False)

    def _preempt(self, shard: int, container: int) -> bool:
        """Takes less important shards off the container, the least important first, no more than needed."""
        priority = self._frame.problem.shards.priority
        held = np.flatnonzero(self.holder == container)
        lesser = self._relieving(shard, container, held[priority[held] < priority[shard]])
        lesser = lesser[np.argsort(priority[lesser], kind="stable")]
        return self._vacate(shard, container, lesser, give_up=True)

    def _vacate(self, shard: int, container: int, others: Ints, *, give_up: bool) -> bool:
        """Takes other shards off one by one until the shard fits, and places it. Undoes everything if it never fits."""
        total = self._total.copy()
        gone = []
        for other in others.tolist():
            if self._missing(shard, container).max() == 0:
                break
            destination = NOBODY if give_up else self._room_elsewhere(other, container)
            if give_up or destination != NOBODY:
                self._move(other, destination)
                gone.append(other)
        if self._missing(shard, container).max() == 0:
            self._move(shard, container)
            return True
        for other in gone:
            self._move(other, container)
        self._total = total
        return False

    def _relieving(self, shard: int, container: int, others: Ints) -> Ints:
        """The other shards that free missing capacity, the most relieving for their cost first."""
        missing = self._missing(shard, container)
        usable = np.where(self._frame.usable[container] > 0, self._frame.usable[container], 1.0)
        relief = (np.minimum(self._frame.load[others], missing) / usable).sum(axis=1)
        order = np.argsort(-relief / self._frame.cost[others], kind="stable")
        return np.asarray(others[order][relief[order] > 0])

    def _missing(self, shard: int, container: int) -> Floats:
        total = self._total[container] + self._frame.load[shard]
        return np.asarray(np.maximum(total - self._frame.limit[container], 0))

    def _may_enter(self, shard: int) -> Flags:
        return np.asarray(self._frame.may_enter[self._frame.problem.shards.constraint[shard]])

    def _room_elsewhere(self, shard: int, here: int) -> int:
        total = self._total + self._frame.load[shard]
        room = self._may_enter(shard) & (total <= self._frame.limit).all(axis=1)
        room[here] = False
        if not room.any():
            return NOBODY
        left = ((self._frame.limit - total) / np.where(self._frame.usable > 0, self._frame.usable, 1.0)).min(axis=1)
        return int(np.where(room, left, -np.inf).argmax())

    def _move(self, shard: int, destination: int) -> None:
        source, load = int(self.holder[shard]), self._frame.load[shard]
        for container, sign in ((source, -1), (destination, 1)):
            if container != NOBODY:
                self._total[container] += sign * load
        self.holder[shard] = destination
