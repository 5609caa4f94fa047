"""The problem of a cell, from its live containers and from what its shards ask. Pure.

What is unknown is not zero: a capacity that a container does not tell, or that cannot be, is taken from the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.tasks.dimensions import DIMENSIONS, NAMES
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member
from penstock.tasks.selectors import parts
from services.shard_manager.placement.binding import Unmet, bind, without_a_place
from services.shard_manager.placement.build import Container, containers_of
from services.shard_manager.placement.needs import Needs
from services.shard_manager.placement.problem import NO_GROUP, Containers, Floats, Problem, Shards, State

IDLE_SHARE = 0.05
"""Every shard is taken to use an equal part of so much of the cell at least: shards without tasks are spread by count,
so new tasks land evenly, and nothing moves for a dimension that hardly anybody uses and bands could not be reached in.
"""
UNBOUNDED = 1e15
"""The capacity of a dimension that no container tells: nothing is too large for it, and it is shared out evenly."""


_STATES = {OPEN: State.OPEN, CORDONED: State.CORDONED, DRAINING: State.DRAINING}


class Rules(NamedTuple):
    """Settings of placement, as in `Problem`; `headroom` is the same share of every container."""

    headroom: float = 0.1
    band: float = 0.1
    move_budget: int | None = None


@dataclass(frozen=True)
class CellProblem:
    """Shards are 0 to S - 1. `unmet`: jobs that ask for what their shards cannot be given."""

    problem: Problem
    unmet: tuple[Unmet, ...]


def problem_of_cell(members: Mapping[str, Member], needs: Needs, home: Mapping[int, str], rules: Rules) -> CellProblem:
    """`members`: the live containers by name, of whose labels only those that are asked for come in; `home`: where
    shards are, or are to be."""
    rows = [members[name] for name in sorted(members)]
    labels = frozenset(label for selector in needs.asks.selectors for label in parts(selector)[1])
    offers = [member.offers() for member in rows]
    hosts = [
        Container(
            name=member.name,
            capacity=capacity,
            region=member.region,
            labels=offer & labels,
            state=_STATES[member.availability],
            headroom=rules.headroom,
        )
        for member, capacity, offer in zip(rows, _completed(rows), offers, strict=True)
    ]
    count, containers = len(needs.load), containers_of(hosts, NAMES)
    offered = {offer for offer, host in zip(offers, hosts, strict=True) if host.state is State.OPEN}
    bound = bind(needs.asks, count, offered, members, home)
    shards = Shards(
        ids=np.arange(count),
        load=np.maximum(needs.load, _idle(containers, count)),
        constraint=bound.constraint,
        constraints=bound.constraints,
        priority=needs.priority,
        move_seconds=needs.move_seconds,
        spread=needs.spread,
        replica=np.full(count, NO_GROUP),
    )
    problem = Problem(containers, shards, NAMES, rules.band, rules.move_budget)
    return CellProblem(problem, (*bound.unmet, *without_a_place(needs, offers)))


def _idle(containers: Containers, shard_count: int) -> Floats:
    """What a shard is taken to use at least [D]."""
    capacity = containers.capacity.sum(axis=0)
    assumed = np.array([dimension.assumed for dimension in DIMENSIONS])
    return np.asarray(IDLE_SHARE * np.where(capacity < UNBOUNDED, capacity / max(shard_count, 1), assumed))


def _completed(rows: Sequence[Member]) -> list[dict[str, float]]:
    """Capacities with every dimension: one that is not told is the mean of those that are."""
    told = [{name: amount for name, amount in row.capacity().items() if 0 <= amount < math.inf} for row in rows]
    known = {name: [offered[name] for offered in told if name in offered] for name in NAMES}
    usual = {name: float(np.mean(amounts)) if amounts else UNBOUNDED for name, amounts in known.items()}
    return [{name: offered.get(name, usual[name]) for name in NAMES} for offered in told]
