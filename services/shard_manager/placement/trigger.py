"""When shards are placed again. Pure.

A target stays until something triggers another placement. Meanwhile the moves towards the target are carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.tasks.shards import Sharding
from services.shard_manager.placement.target import Target, Violations


class PlacementTrigger(StrEnum):
    """Why shards are placed again."""

    TAKEN_OVER = "taken over"
    FAIL_OVER = "containers were lost"
    CONTAINERS = "containers changed"
    SHARDS = "tasks are in other shards"
    OVERLOADED = "a container is overloaded"
    MISPLACED = "a shard is where its tasks may not run"
    UNFINISHED = "the last placement was not finished"
    PERIOD = "the period has passed"


class Periods(NamedTuple):
    """Seconds between placements: usually, and after one that was not finished."""

    usual: float
    unfinished: float


def trigger_of_cell(
    target: Target | None, containers: Mapping[str, object], sharding: Sharding, now: float, periods: Periods
) -> PlacementTrigger | None:
    """Why the target is outdated, whatever the loads are; None while it is not. `containers`: by `container_facts`."""
    if target is None:
        return PlacementTrigger.TAKEN_OVER
    if target.containers != containers:
        return PlacementTrigger.CONTAINERS
    if target.sharding != sharding:
        return PlacementTrigger.SHARDS
    if now - target.placed_at >= periods.usual:
        return PlacementTrigger.PERIOD
    if not target.finished and now - target.placed_at >= periods.unfinished:
        return PlacementTrigger.UNFINISHED
    return None


def trigger_of_needs(target: Target, violations: Violations) -> PlacementTrigger | None:
    """Why newer needs ask for another target; None for violations that were known when the target was made."""
    if violations.misplaced - target.violations.misplaced:
        return PlacementTrigger.MISPLACED
    if violations.overloaded - target.violations.overloaded:
        return PlacementTrigger.OVERLOADED
    return None
