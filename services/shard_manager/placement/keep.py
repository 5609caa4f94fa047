"""Phase 1: shards that may stay keep their container; containers over capacity lose the shards that they must. Pure."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints
from services.shard_manager.placement.solution import Solution, solution_of


def keep(frame: Frame, home: Ints) -> Solution:
    """Every shard that may stay at `home` [S] stays; the others have no holder.

    A shard leaves when its container is gone or drains, or when its constraint does not hold there.
    """
    constraint = frame.problem.shards.constraint
    holder = home.copy()
    held = np.flatnonzero(home != NOBODY)
    holder[held[~frame.may_stay[constraint[held], home[held]]]] = NOBODY
    return solution_of(frame, holder)


def relieve(frame: Frame, kept: Solution) -> Solution:
    """Takes shards off containers until none is over capacity; those that relieve most for their cost go first."""
    solution = kept
    while True:
        excess = np.maximum(solution.total - frame.limit, 0)
        over: Flags = np.asarray((excess > 0).any(axis=1))
        if not over.any():
            return solution
        holder = solution.holder.copy()
        holder[_most_relieving(frame, holder, excess, over)] = NOBODY
        solution = solution_of(frame, holder)


def _most_relieving(frame: Frame, holder: Ints, excess: Floats, over: Flags) -> Ints:
    """One shard of each container that is over capacity; of shards that relieve equally, the smallest."""
    rows = np.flatnonzero(np.append(over, False)[holder])
    container = holder[rows]
    per_unit = 1 / np.where(frame.usable > 0, frame.usable, 1.0)
    relief = (np.minimum(frame.load[rows], excess[container]) * per_unit[container]).sum(axis=1)
    size = (frame.load[rows] * per_unit[container]).sum(axis=1)
    order = np.lexsort((rows, size, -relief / frame.cost[rows], container))
    first = np.append(True, np.diff(container[order]) > 0)
    return np.asarray(rows[order[first]])
