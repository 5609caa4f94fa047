"""Containers over capacity lose the shards that they must. Pure."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.frame import Frame, totals
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints


def relieve(frame: Frame, holder: Ints) -> Ints:
    """Takes shards off containers until none is over capacity; those that relieve most for their cost go first."""
    while True:
        excess = np.maximum(totals(frame, holder) - frame.limit, 0)
        over: Flags = np.asarray((excess > 0).any(axis=1))
        if not over.any():
            return holder
        holder = holder.copy()
        holder[_most_relieving(frame, holder, excess, over)] = NOBODY


def _most_relieving(frame: Frame, holder: Ints, excess: Floats, over: Flags) -> Ints:
    """One shard of each container that is over capacity; of shards that relieve equally, the smallest."""
    rows = np.flatnonzero(np.append(over, False)[holder])
    container = holder[rows]
    relief = (np.minimum(frame.load[rows], excess[container]) * frame.per_unit[container]).sum(axis=1)
    size = (frame.load[rows] * frame.per_unit[container]).sum(axis=1)
    order = np.lexsort((rows, size, -relief / frame.cost[rows], container))
    first = np.append(True, np.diff(container[order]) > 0)
    return np.asarray(rows[order[first]])
