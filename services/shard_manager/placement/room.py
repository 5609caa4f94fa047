"""Makes room for shards that fit nowhere: other shards move on, or give way to more important ones. Pure."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.frame import Frame, totals
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints

_TRIES_TO_REPACK = 100
_CONTAINERS_TRIED = 8
_OTHERS_TRIED = 32


def make_room(frame: Frame, holder: Ints) -> Ints:
    """Places waiting shards, the most important first: other shards move elsewhere, or less important ones give way.

    A shard that gave way may have no holder afterwards. Repacking is a search, so it is tried for 100 shards only.
    """
    waiting, priority = np.flatnonzero(holder == NOBODY), frame.problem.shards.priority
    waiting = waiting[np.lexsort((waiting, frame.load[waiting].sum(axis=1), -priority[waiting]))]
    least = priority[holder != NOBODY].min(initial=np.iinfo(np.int64).max)
    workspace = _Workspace(frame, holder)
    for count, shard in enumerate(waiting.tolist()):
        repack, preempt = count < _TRIES_TO_REPACK, bool(priority[shard] > least)
        if not repack and not preempt:
            break
        workspace.place(shard, repack=repack, preempt=preempt)
    return workspace.holder


class _Workspace:
    """The holders while room is made. Its arrays change; no other object shares them."""

    def __init__(self, frame: Frame, holder: Ints) -> None:
        self.holder = holder.copy()
        self._frame = frame
        self._total = totals(frame, holder)

    def place(self, shard: int, *, repack: bool, preempt: bool) -> None:
        """Places one shard, if a way is found: by moving others elsewhere, or by taking less important ones off."""
        load, priority = self._frame.load[shard], self._frame.problem.shards.priority
        enterable = np.flatnonzero(self._may_enter(shard))
        enterable = enterable[(load <= self._frame.limit[enterable]).all(axis=1)]
        missing = np.maximum(self._total[enterable] + load - self._frame.limit[enterable], 0)
        nearest = np.argsort((missing * self._frame.per_unit[enterable]).sum(axis=1), kind="stable")
        for place in nearest[:_CONTAINERS_TRIED]:
            container = int(enterable[place])
            others = self._relieving(container, missing[place])
            lesser = others[priority[others] < priority[shard]]
            lesser = lesser[np.argsort(priority[lesser], kind="stable")]
            if repack and self._vacate(shard, container, others[:_OTHERS_TRIED], give_up=False):
                return
            if preempt and self._vacate(shard, container, lesser, give_up=True):
                return

    def _relieving(self, container: int, missing: Floats) -> Ints:
        """The shards of a container that free missing capacity, the most relieving for their cost first."""
        others = np.flatnonzero(self.holder == container)
        relief = (np.minimum(self._frame.load[others], missing) * self._frame.per_unit[container]).sum(axis=1)
        order = np.argsort(-relief / self._frame.cost[others], kind="stable")
        return np.asarray(others[order][relief[order] > 0])

    def _vacate(self, shard: int, container: int, others: Ints, *, give_up: bool) -> bool:
        """Takes other shards off one by one until the shard fits, and places it. Undoes everything if it never fits."""
        saved = self.holder.copy(), self._total.copy()
        for other in others.tolist():
            if self._has_room(shard, container):
                break
            destination = NOBODY if give_up else self._room_elsewhere(other)
            if give_up or destination != NOBODY:
                self._move(other, destination)
        fits = bool(self._has_room(shard, container))
        if fits:
            self._move(shard, container)
        else:
            self.holder, self._total = saved
        return fits

    def _may_enter(self, shard: int) -> Flags:
        return np.asarray(self._frame.may_enter[self._frame.constraint[shard]])

    def _has_room(self, shard: int, containers: int | slice = slice(None)) -> Flags:
        total = self._total[containers] + self._frame.load[shard]
        return np.asarray((total <= self._frame.limit[containers]).all(axis=-1))

    def _room_elsewhere(self, shard: int) -> int:
        """The container that is left with the most room; `NOBODY` if none has room."""
        room = self._may_enter(shard) & self._has_room(shard)
        room[self.holder[shard]] = False
        found = np.flatnonzero(room)
        left = self._frame.limit[found] - self._total[found] - self._frame.load[shard]
        return int(found[(left * self._frame.per_unit[found]).min(axis=1).argmax()]) if len(found) else NOBODY

    def _move(self, shard: int, destination: int) -> None:
        for container, sign in ((int(self.holder[shard]), -1), (destination, 1)):
            if container != NOBODY:
                self._total[container] += sign * self._frame.load[shard]
        self.holder[shard] = destination
