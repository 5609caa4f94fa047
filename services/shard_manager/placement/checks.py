"""Post-conditions of the phases: each raises AssertionError that names what does not hold. Cheap, whatever the size."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.evenness import Measure
from services.shard_manager.placement.frame import ROUNDING, Frame
from services.shard_manager.placement.problem import NOBODY, Flags, Ints
from services.shard_manager.placement.solution import Solution, fits, replicas_by_region, totals


def check_constraints(frame: Frame, solution: Solution, home: Ints) -> None:
    """Every shard is where it may be: it may enter there, or may stay where it was."""
    held = np.flatnonzero(solution.holder != NOBODY)
    constraint, holder = frame.problem.shards.constraint[held], solution.holder[held]
    at_home = (holder == home[held]) & frame.may_stay[constraint, holder]
    _hold(frame, held, frame.may_enter[constraint, holder] | at_home, "is where it may not be")
    doubled = replicas_by_region(frame, solution.holder) > 1
    if doubled.any():
        raise AssertionError(f"replica groups {np.flatnonzero(doubled.any(axis=1))[:3]} share a region")


def check_capacity(frame: Frame, solution: Solution) -> None:
    """No container is above its capacity less headroom."""
    within = fits(frame, totals(frame, solution.holder))
    if not within.all():
        names = [frame.problem.containers.names[row] for row in np.flatnonzero(~within)[:3]]
        raise AssertionError(f"containers {names} are above their capacity")


def check_only_homeless_placed(before: Solution, after: Solution) -> None:
    """Nothing that had a holder has another."""
    held = before.holder != NOBODY
    if not np.array_equal(before.holder[held], after.holder[held]):
        raise AssertionError("placing shards that nobody held moved others")


def check_same_placed(before: Solution, after: Solution) -> None:
    """Balance neither loses nor places a shard."""
    if not np.array_equal(before.holder == NOBODY, after.holder == NOBODY):
        raise AssertionError("balance lost or placed a shard")


def check_counted(frame: Frame, measure: Measure) -> None:
    """No shard counts more for evenness than it takes."""
    over = (measure.columns > frame.columns * (1 + ROUNDING)).any(axis=0)
    if over.any():
        raise AssertionError(f"shard {frame.problem.shards.ids[over.argmax()]} counts more than it takes")


def _hold(frame: Frame, rows: Ints, good: Flags, what: str) -> None:
    if not good.all():
        raise AssertionError(f"shard {frame.problem.shards.ids[rows[~good][0]]} {what}")
