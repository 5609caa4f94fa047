"""Post-conditions of the phases. Each raises AssertionError that names the violation. All are cheap at any size."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.evenness import Measure
from services.shard_manager.placement.frame import ROUNDING, Frame
from services.shard_manager.placement.problem import NOBODY, Ints
from services.shard_manager.placement.solution import Solution, fits, totals


def check_constraints(frame: Frame, solution: Solution, home: Ints) -> None:
    """Every placed shard may enter its container, or was there before and may stay."""
    placed = np.flatnonzero(solution.holder != NOBODY)
    constraint, holder = frame.problem.shards.constraint[placed], solution.holder[placed]
    at_home = (holder == home[placed]) & frame.may_stay[constraint, holder]
    allowed = frame.may_enter[constraint, holder] | at_home
    if not allowed.all():
        shard = frame.problem.shards.ids[placed[~allowed][0]]
        raise AssertionError(f"shard {shard} is on a container where it may not be")


def check_capacity(frame: Frame, solution: Solution) -> None:
    """No container is above its capacity less headroom."""
    within = fits(frame, totals(frame, solution.holder))
    if not within.all():
        names = [frame.problem.containers.names[row] for row in np.flatnonzero(~within)[:3]]
        raise AssertionError(f"containers {names} are above their capacity")


def check_only_homeless_placed(before: Solution, after: Solution) -> None:
    """No shard that had a holder has another one now."""
    placed = before.holder != NOBODY
    if not np.array_equal(before.holder[placed], after.holder[placed]):
        raise AssertionError("placing shards without a holder moved other shards")


def check_same_placed(before: Solution, after: Solution) -> None:
    """Balance neither loses nor places a shard."""
    if not np.array_equal(before.holder == NOBODY, after.holder == NOBODY):
        raise AssertionError("balance lost or placed a shard")


def check_counted(frame: Frame, measure: Measure) -> None:
    """No shard counts more for evenness than it takes."""
    over = (measure.columns > frame.columns * (1 + ROUNDING)).any(axis=0)
    if over.any():
        raise AssertionError(f"shard {frame.problem.shards.ids[over.argmax()]} counts more than it takes")
