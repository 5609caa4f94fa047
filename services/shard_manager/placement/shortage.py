"""Where shards go that have no place for want of capacity: they run all the same, beyond capacity. Pure.

Capacity less headroom is how far containers are filled by choice. A task is not stopped, nor kept from starting, because
a measurement or an estimate of it is too large: that would turn a shortage into an outage. So what `place` finds no room
for stays where it is, and what is nowhere goes to the container that is least full then, important and large ones first.
People are told of it; which jobs give way is for the Capacity Manager to say.
"""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.frame import Frame, frame_of
from services.shard_manager.placement.place import Placement
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints, Problem
from services.shard_manager.placement.reasons import Cause
from services.shard_manager.placement.solution import totals

_FOR_WANT_OF_CAPACITY = (Cause.CAPACITY_SHORT, Cause.TOO_LARGE)


def beyond_capacity(problem: Problem, placement: Placement, home: Ints) -> Ints:
    """The container of each shard [S], as in `placement.holder`, with those that only capacity leaves without one.

    `home` [S]: where each was, or `NOBODY`. The others without a place stay without.
    """
    short = {lack.shard for lack in placement.unplaceable if lack.cause in _FOR_WANT_OF_CAPACITY}
    unplaced = np.flatnonzero(placement.holder == NOBODY)
    rows = np.array([row for row in unplaced if problem.shards.ids[row] in short], dtype=np.int64)
    if len(rows) == 0:
        return placement.holder
    frame, holder = frame_of(problem), placement.holder.copy()
    stays = _may_stay(frame, rows, home)
    holder[rows[stays]] = home[rows[stays]]
    _fill(frame, holder, rows[~stays])
    return holder


def _may_stay(frame: Frame, rows: Ints, home: Ints) -> Flags:
    """Whether each runs where it may go on running."""
    may_stay = frame.may_stay[frame.problem.shards.constraint[rows], home[rows]]
    return np.asarray((home[rows] != NOBODY) & may_stay)


def _fill(frame: Frame, holder: Ints, rows: Ints) -> None:
    """Puts each row on the container whose fullest dimension is least full after it; changes `holder`."""
    shards, total, per_unit = frame.problem.shards, totals(frame, holder), _per_unit(frame.usable)
    size = (frame.load[rows] * per_unit.mean(axis=0)).max(axis=1)
    for row in rows[np.lexsort((rows, -size, -shards.priority[rows]))]:
        containers = np.flatnonzero(frame.may_enter[shards.constraint[row]])
        fill = ((total[containers] + frame.load[row]) * per_unit[containers]).max(axis=1)
        best = containers[fill.argmin()]
        holder[row] = best
        total[best] += frame.load[row]


def _per_unit(usable: Floats) -> Floats:
    """What turns a load into a share of a container [C, D]; where nothing is offered, the load itself."""
    return np.asarray(1 / np.where(usable > 0, usable, 1.0))
