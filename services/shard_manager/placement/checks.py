"""Post-conditions of the phases. Each raises AssertionError that names the violation. All are cheap at any size."""

from __future__ import annotations

import numpy as np

from services.shard_manager.placement.evenness import Measure
from services.shard_manager.placement.frame import ROUNDING, Frame, holds, totals
from services.shard_manager.placement.problem import NOBODY, Ints


def check_holders(frame: Frame, holder: Ints) -> None:
    """Every placed shard may enter its container, or was there before and may stay; no container is above its capacity
    less headroom."""
    may_stay = holds(frame, frame.may_stay, holder) & (holder == frame.home)
    wrong = (holder != NOBODY) & ~holds(frame, frame.may_enter, holder) & ~may_stay
    if wrong.any():
        raise AssertionError(f"shard {frame.problem.shards.ids[wrong.argmax()]} is on a container where it may not be")
    above = (totals(frame, holder) > frame.limit).any(axis=1)
    if above.any():
        names = [frame.problem.containers.names[row] for row in np.flatnonzero(above)[:3]]
        raise AssertionError(f"containers {names} are above their capacity")


def check_only_homeless_placed(before: Ints, after: Ints) -> None:
    """No shard that had a holder has another one now."""
    if ((before != NOBODY) & (before != after)).any():
        raise AssertionError("placing shards without a holder moved other shards")


def check_same_placed(before: Ints, after: Ints) -> None:
    """Balance neither loses nor places a shard."""
    if ((before == NOBODY) != (after == NOBODY)).any():
        raise AssertionError("balance lost or placed a shard")


def check_counted(frame: Frame, measure: Measure) -> None:
    """No shard counts more for evenness than it takes."""
    over = (measure.columns > frame.columns * (1 + ROUNDING)).any(axis=0)
    if over.any():
        raise AssertionError(f"shard {frame.problem.shards.ids[over.argmax()]} counts more than it takes")
