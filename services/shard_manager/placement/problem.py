"""The input of placement as columns: one row for each shard, one row for each container. Pure data, checked when made.

Dimensions are names. Loads and capacities have one column for each dimension, in any unit that both share.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.control.errors import UserError
from penstock.tasks.dimensions import NAMES
from penstock.tasks.taking import Constraint

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOBODY = -1
NO_GROUP = -1


class State(IntEnum):
    """`OPEN`: takes shards. `CORDONED`: keeps its shards and gets no more. `DRAINING`: is emptied."""

    OPEN = 0
    CORDONED = 1
    DRAINING = 2


@dataclass(frozen=True)
class Containers:
    """C containers in order of name.

    `capacity` [C, D]; `headroom` [C]: the share of the capacity that is kept free; `region` [C]: indexes into
    `region_names`; `labels` [C, labels]: flags in the order of `label_names`; `state` [C]: values of `State`.
    """

    names: tuple[str, ...]
    capacity: Floats
    headroom: Floats
    region: Ints
    labels: Flags
    state: Ints
    region_names: tuple[str, ...]
    label_names: tuple[str, ...]

    @property
    def usable(self) -> Floats:
        """Capacity less headroom [C, D]."""
        return self.capacity * (1 - self.headroom)[:, None]


@dataclass(frozen=True)
class Shards:
    """S shards in order of number.

    `load` [S, D]: what each shard uses; `constraint` [S]: indexes into `constraints`; `priority` [S]: shards with a
    higher one are placed first; `move_seconds` [S]: the cost of a move, for restarts and the transfer of state.
    `spread` [S]: shards of one group should be on different containers; `NO_GROUP`: the shard is in no group.
    """

    ids: Ints
    load: Floats
    constraint: Ints
    constraints: tuple[Constraint, ...]
    priority: Ints
    move_seconds: Floats
    spread: Ints


@dataclass(frozen=True)
class Problem:
    """Shards to be placed on containers.

    `band`: how far a container's load may be from its tier's mean, as a share of the mean. `move_budget`: how many
    shards one placement may move for balance; None: any number; 1 allows no swaps. Raises UserError with field and
    rule.
    """

    containers: Containers
    shards: Shards
    dimensions: tuple[str, ...] = NAMES
    band: float = 0.1
    move_budget: int | None = None

    def __post_init__(self) -> None:
        _check_containers(self.containers, len(self.dimensions))
        _check_shards(self.shards, len(self.dimensions))
        _require(len(set(self.dimensions)) == len(self.dimensions) > 0, "dimensions", "one or more different names")
        _require(0 < self.band < 1, "band", "above 0 and below 1")
        _require(self.move_budget is None or self.move_budget >= 0, "move_budget", "0 or more, or None")


def _check_containers(containers: Containers, dimensions: int) -> None:
    count = len(containers.names)
    _require(all(one < other for one, other in pairwise(containers.names)), "containers.names", "ascending, each once")
    _amounts(containers.capacity, (count, dimensions), "containers.capacity")
    _shaped(containers.headroom, (count,), "containers.headroom")
    _require(_within(containers.headroom, 0, 1), "containers.headroom", "from 0 up to, not including, 1")
    _indexes(containers.region, count, (0, len(containers.region_names)), "containers.region", "region_names")
    _shaped(containers.labels, (count, len(containers.label_names)), "containers.labels")
    _indexes(containers.state, count, (0, len(State)), "containers.state", "State")


def _check_shards(shards: Shards, dimensions: int) -> None:
    count = len(shards.ids)
    _require(bool(np.all(np.diff(shards.ids) > 0)), "shards.ids", "ascending, each once")
    _amounts(shards.load, (count, dimensions), "shards.load")
    _indexes(shards.constraint, count, (0, len(shards.constraints)), "shards.constraint", "shards.constraints")
    _amounts(shards.move_seconds, (count,), "shards.move_seconds")
    _shaped(shards.priority, (count,), "shards.priority")
    _indexes(shards.spread, count, (NO_GROUP, count), "shards.spread", "the shards, or -1")


def _shaped(column: NDArray[Any], shape: tuple[int, ...], field: str) -> None:
    _require(column.shape == shape, field, f"of shape {shape}, not {column.shape}")


def _amounts(column: Floats, shape: tuple[int, ...], field: str) -> None:
    _shaped(column, shape, field)
    _require(bool(np.all(np.isfinite(column) & (column >= 0))), field, "known and not negative")


def _indexes(column: Ints, count: int, bounds: tuple[int, int], field: str, of: str) -> None:
    _shaped(column, (count,), field)
    _require(_within(column, *bounds), field, f"an index into {of}")


def _within(column: NDArray[Any], low: int, end: int) -> bool:
    return bool(np.all((column >= low) & (column < end)))


def _require(holds: bool, field: str, rule: str) -> None:
    if not holds:
        raise UserError(f"{field} must be {rule}", field=field, rule=rule)
