"""Placement problems from objects, in any order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.tasks.dimensions import NAMES
from penstock.tasks.taking import ANYWHERE, Constraint
from services.shard_manager.placement.needs import STATE_BYTES_PER_SECOND
from services.shard_manager.placement.problem import NO_GROUP, Containers, Floats, Ints, Problem, Shards, State


@dataclass(frozen=True)
class Container:
    """`capacity` by dimension; one that is not named is 0. `headroom`: the share of the capacity that is kept free."""

    name: str
    capacity: Mapping[str, float]
    region: str = ""
    labels: frozenset[str] = frozenset()
    state: State = State.OPEN
    headroom: float = 0.0


@dataclass(frozen=True)
class Shard:
    """`load` by dimension. `job`: shards of one job are spread over containers."""

    id: int
    load: Mapping[str, float]
    constraint: Constraint = ANYWHERE
    priority: int = 0
    job: Hashable | None = None
    state_bytes: float = 0.0
    restart_seconds: float = 0.0


def problem_of(
    containers: Iterable[Container],
    shards: Iterable[Shard],
    *,
    dimensions: Sequence[str] = NAMES,
    band: float = 0.1,
    move_budget: int | None = None,
) -> Problem:
    """The columns. Raises UserError for what `Problem` refuses."""
    return Problem(
        _containers(sorted(containers, key=lambda row: row.name), dimensions),
        _shards(sorted(shards, key=lambda row: row.id), dimensions),
        tuple(dimensions),
        band,
        move_budget,
    )


def _containers(rows: Sequence[Container], dimensions: Sequence[str]) -> Containers:
    regions = sorted({row.region for row in rows})
    labels = sorted({label for row in rows for label in row.labels})
    has = [[label in row.labels for label in labels] for row in rows]
    return Containers(
        names=tuple(row.name for row in rows),
        capacity=_vectors([row.capacity for row in rows], dimensions),
        headroom=np.array([row.headroom for row in rows], dtype=np.float64),
        region=np.array([regions.index(row.region) for row in rows], dtype=np.int64),
        labels=np.array(has, dtype=np.bool_).reshape(len(rows), len(labels)),
        state=np.array([row.state for row in rows], dtype=np.int64),
        region_names=tuple(regions),
        label_names=tuple(labels),
    )


def _shards(rows: Sequence[Shard], dimensions: Sequence[str]) -> Shards:
    constraints = sorted({row.constraint for row in rows}, key=lambda wanted: [sorted(names) for names in wanted])
    index = {constraint: place for place, constraint in enumerate(constraints)}
    costs = [row.restart_seconds + row.state_bytes / STATE_BYTES_PER_SECOND for row in rows]
    return Shards(
        ids=np.array([row.id for row in rows], dtype=np.int64),
        load=_vectors([row.load for row in rows], dimensions),
        constraint=np.array([index[row.constraint] for row in rows], dtype=np.int64),
        constraints=tuple(constraints),
        priority=np.array([row.priority for row in rows], dtype=np.int64),
        move_seconds=np.array(costs, dtype=np.float64),
        spread=_groups([row.job for row in rows]),
    )


def _vectors(rows: Sequence[Mapping[str, float]], dimensions: Sequence[str]) -> Floats:
    values = [[row.get(dimension, 0.0) for dimension in dimensions] for row in rows]
    return np.array(values, dtype=np.float64).reshape(len(rows), len(dimensions))


def _groups(names: Sequence[Hashable | None]) -> Ints:
    numbers: dict[Hashable, int] = {}
    groups = [NO_GROUP if name is None else numbers.setdefault(name, len(numbers)) for name in names]
    return np.array(groups, dtype=np.int64)
