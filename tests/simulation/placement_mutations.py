"""Ways to break placement, each a promise that is not kept. The simulation must notice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.tasks.ownership import CORDONED
from penstock.tasks.taking import ANYWHERE, constraint_of
from services.shard_manager.leader import move_planner
from services.shard_manager.moves.planner import plan
from services.shard_manager.placement import balance, binding, brute_force, cell, rebalance_tiers, target
from services.shard_manager.placement.binding import Bound
from services.shard_manager.placement.problem import State
from services.shard_manager.placement.shortage import _larger, place_all


def capacity_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Containers are filled as if they were a thousand times as large."""
    patch.setattr(target, "place_all", lambda problem, previous: place_all(_larger(problem, 1000.0), previous))


def the_budget_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A placement moves for balance as much as helps."""
    for module in (balance, brute_force, rebalance_tiers):
        patch.setattr(module, "budget_left", lambda *_: float("inf"))


def a_cordon_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Cordoned containers get shards like others."""
    patch.setitem(cell._STATES, CORDONED, State.OPEN)


def regions_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Shards go anywhere, whatever their jobs ask for."""

    def nowhere(_: Any, shard_count: int, *__: Any) -> Bound:
        return Bound(np.zeros(shard_count, dtype=np.int64), (ANYWHERE,), ())

    patch.setattr(cell, "bind", nowhere)


def labels_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Shards go to the region that their jobs ask for, whatever labels these ask for."""
    patch.setattr(binding, "constraint_of", lambda selector: constraint_of(selector)._replace(labels=frozenset()))


def all_moves_at_once(patch: pytest.MonkeyPatch) -> None:
    """What is to move moves, however much moves already."""
    patch.setattr(move_planner, "plan", lambda *where, move_limit: plan(*where, move_limit=1000))


PLACEMENT_MUTATIONS = (
    capacity_is_ignored,
    the_budget_is_ignored,
    a_cordon_is_ignored,
    regions_are_ignored,
    labels_are_ignored,
    all_moves_at_once,
)
