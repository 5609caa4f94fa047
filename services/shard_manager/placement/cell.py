"""The placement problem of a cell, from its live containers and the needs of its shards. Pure.

Unknown is not zero: a capacity that a container does not report, or that is invalid, is taken from the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.tasks.dimensions import DIMENSIONS, NAMES, Amounts
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member
from penstock.tasks.selectors import parts
from penstock.tasks.taking import Constraint, obstacle
from services.shard_manager.placement.binding import Bound, Unmet, bind, without_slot
from services.shard_manager.placement.needs import Needs
from services.shard_manager.placement.problem import Containers, Floats, Ints, Problem, Shards, State

IDLE_SHARE = 0.05
"""Every shard counts at least its equal part of this share of the cell. So shards without tasks are spread by count and
new tasks land evenly. And nothing moves for a dimension that is hardly used, where bands could not be reached.
"""
UNBOUNDED = 1e15
"""The capacity of a dimension that no container reports: nothing is too large for it, and it is shared out evenly."""


_STATES = {OPEN: State.OPEN, CORDONED: State.CORDONED, DRAINING: State.DRAINING}
# A word of a newer release: the container keeps what it has, and gets nothing new.
_UNKNOWN_STATE = State.CORDONED


class Rules(NamedTuple):
    """Settings of placement, as in `Problem`; `headroom` is the same share of every container."""

    headroom: float = 0.1
    band: float = 0.1
    move_budget: int | None = None


@dataclass(frozen=True)
class CellProblem:
    """Shards are numbered 0 to S - 1. `unmet`: jobs that ask for what their shards cannot be given."""

    problem: Problem
    unmet: tuple[Unmet, ...]


def problem_of_cell(members: Mapping[str, Member], needs: Needs, home: Mapping[int, str], rules: Rules) -> CellProblem:
    """The problem. `members`: the live containers by name; `home`: the present or intended container of each shard."""
    rows = [members[name] for name in sorted(members)]
    count, containers = len(needs.load), _containers(rows, needs.asks.selectors, rules.headroom)
    bound = bind(needs.asks, count, {row.offers() for row in rows if row.availability == OPEN}, members, home)
    load = np.maximum(needs.load, _idle(containers, count))
    constraint, constraints = _avoiding(bound, needs.avoids, rows, load, containers.usable)
    shards = Shards(
        ids=np.arange(count),
        load=load,
        constraint=constraint,
        constraints=constraints,
        priority=needs.priority,
        move_seconds=needs.move_seconds,
        spread=needs.spread,
    )
    problem = Problem(containers, shards, NAMES, rules.band, rules.move_budget)
    return CellProblem(problem, (*bound.unmet, *without_slot(needs, [row.offers() for row in rows])))


def _avoiding(
    bound: Bound, avoids: Mapping[int, frozenset[str]], rows: Sequence[Member], load: Floats, usable: Floats
) -> tuple[Ints, tuple[Constraint, ...]]:
    """The constraint of each shard, with the containers that its tasks avoid. A shard that only these could take, also
    by its load [S, D] and what containers have of use [C, D], avoids none: a slow task is better than none, and than
    one that lacks memory."""
    constraint, constraints = bound.constraint.copy(), list(bound.constraints)
    offered = [_by_name(has) for has in usable] if avoids else []
    for shard, names in sorted(avoids.items()):
        asked = constraints[constraint[shard]]._replace(avoids=names)
        of_shard = _by_name(load[shard])
        if all(obstacle(row, asked, of_shard, has) for row, has in zip(rows, offered, strict=True)):
            continue
        if asked not in constraints:
            constraints.append(asked)
        constraint[shard] = constraints.index(asked)
    return constraint, tuple(constraints)


def _by_name(amounts: Floats) -> Amounts:
    return dict(zip(NAMES, amounts.tolist(), strict=True))


def _containers(rows: Sequence[Member], selectors: Collection[str], headroom: float) -> Containers:
    """The columns of containers; of their labels only those that some selector asks for."""
    regions = sorted({row.region for row in rows})
    labels = sorted({label for selector in selectors for label in parts(selector)[1]})
    has = [[label in row.offers() for label in labels] for row in rows]
    return Containers(
        names=tuple(row.name for row in rows),
        capacity=_capacities(rows),
        headroom=np.full(len(rows), headroom),
        region=np.array([regions.index(row.region) for row in rows], dtype=np.int64),
        labels=np.array(has, dtype=np.bool_).reshape(len(rows), len(labels)),
        state=np.array([_STATES.get(row.availability, _UNKNOWN_STATE) for row in rows], dtype=np.int64),
        region_names=tuple(regions),
        label_names=tuple(labels),
    )


def _capacities(rows: Sequence[Member]) -> Floats:
    """Capacities [C, D]; one that is not reported is the mean of the reported ones."""
    reported = [{name: amount for name, amount in row.capacity().items() if 0 <= amount < math.inf} for row in rows]
    known = {name: [offered[name] for offered in reported if name in offered] for name in NAMES}
    usual = {name: float(np.mean(amounts)) if amounts else UNBOUNDED for name, amounts in known.items()}
    values = [[offered.get(name, usual[name]) for name in NAMES] for offered in reported]
    return np.array(values, dtype=np.float64).reshape(len(rows), len(NAMES))


def _idle(containers: Containers, shard_count: int) -> Floats:
    """The least load that a shard counts [D]."""
    capacity = containers.capacity.sum(axis=0)
    assumed = np.array([dimension.assumed for dimension in DIMENSIONS])
    return np.asarray(IDLE_SHARE * np.where(capacity < UNBOUNDED, capacity / max(shard_count, 1), assumed))
