"""Shards of one group should be on different containers. Pure."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NO_GROUP, Flags, Ints


class Groups:
    """Which containers hold a shard of which group (`Frame.spread`)."""

    def __init__(self, frame: Frame, rows: Ints, holder: Ints) -> None:
        """Of the shards `rows`, which have a holder."""
        self._spread = np.append(frame.spread, NO_GROUP)
        self._containers = len(frame.usable)
        self._keys = np.zeros(0, dtype=np.int64)
        self.add(rows, holder[rows])

    def add(self, rows: Ints, containers: Ints) -> None:
        """Shards come to containers."""
        keys = np.sort(self._key(rows, containers)[self._spread[rows] != NO_GROUP])
        self._keys = np.insert(self._keys, np.searchsorted(self._keys, keys), keys)

    def crowds(self, rows: Ints, containers: Ints) -> Flags:
        """Whether the container already has a shard of the same group. `rows` may be `NOBODY`, for no shard."""
        if len(self._keys) == 0:
            return np.zeros(np.broadcast_shapes(rows.shape, containers.shape), dtype=np.bool_)
        keys = self._key(rows, containers)
        found = np.append(self._keys, -1)[np.searchsorted(self._keys, keys)] == keys
        return np.asarray(found & (self._spread[rows] != NO_GROUP))

    def _key(self, rows: Ints, containers: Ints) -> Ints:
        return np.asarray(self._spread[rows] * self._containers + containers)
