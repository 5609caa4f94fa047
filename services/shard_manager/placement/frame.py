"""What follows from a problem alone: allowed containers, tiers, capacities. Computed once for each placement. Pure.

A tier is a set of open containers that may take the same shards: no shard's region or labels tell them apart. Bands are
kept within a tier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.shard_manager.placement.problem import (
    NO_GROUP,
    Constraint,
    Containers,
    Flags,
    Floats,
    Ints,
    Problem,
    Shards,
    State,
)

ROUNDING = 1e-9
"""The share by which rounding may exceed a capacity."""


@dataclass(frozen=True)
class Frame:
    """Columns by shard [S], container [C] and constraint [K].

    `usable` [C, D]: capacity less headroom; `limit` [C, D]: the same with room for rounding. `may_stay` [K, C]: the
    constraint holds and the container does not drain. `may_enter` [K, C]: the constraint holds and the container is
    open. `tier` [C]: -1 when not open. `spread` [S]: groups of shards that should be on different containers. `cost`
    [S]: of a move, 1 or more. `columns` [D, S + 1]: loads by dimension, with a 0 at the end for index `NOBODY`.
    """

    problem: Problem
    usable: Floats
    limit: Floats
    satisfies: Flags
    may_stay: Flags
    may_enter: Flags
    tier: Ints
    spread: Ints
    cost: Floats
    columns: Floats

    @property
    def load(self) -> Floats:
        """What each shard uses [S, D]."""
        return self.problem.shards.load

    @property
    def region(self) -> Ints:
        """The region of each container [C]."""
        return self.problem.containers.region


def frame_of(problem: Problem) -> Frame:
    """Computes the frame of a problem."""
    containers, shards = problem.containers, problem.shards
    usable = containers.capacity * (1 - containers.headroom)[:, None]
    satisfies = _satisfies(containers, shards.constraints)
    may_enter = satisfies & (containers.state == State.OPEN)
    return Frame(
        problem=problem,
        usable=usable,
        limit=usable * (1 + ROUNDING),
        satisfies=satisfies,
        may_stay=satisfies & (containers.state != State.DRAINING),
        may_enter=may_enter,
        tier=_tiers(may_enter[np.unique(shards.constraint)], containers.state == State.OPEN),
        spread=_spreadable(shards, may_enter.sum(axis=1)),
        cost=_costs(shards.move_seconds),
        columns=np.ascontiguousarray(np.pad(shards.load, ((0, 1), (0, 0))).T),
    )


def _satisfies(containers: Containers, constraints: tuple[Constraint, ...]) -> Flags:
    rows = [allowed(containers, constraint) for constraint in constraints]
    return np.array(rows, dtype=np.bool_).reshape(len(constraints), len(containers.names))


def allowed(containers: Containers, constraint: Constraint) -> Flags:
    """The containers [C] where the constraint holds."""
    holds = np.ones(len(containers.names), dtype=np.bool_)
    if constraint.regions:
        named = np.array([name in constraint.regions for name in containers.region_names], dtype=np.bool_)
        holds &= named[containers.region]
    for label in constraint.labels:
        known = label in containers.label_names
        holds &= containers.labels[:, containers.label_names.index(label)] if known else False
    return holds


def _tiers(may_enter: Flags, is_open: Flags) -> Ints:
    tier = np.full(len(is_open), -1, dtype=np.int64)
    if is_open.any():
        tier[is_open] = np.unique(may_enter[:, is_open], axis=1, return_inverse=True)[1].reshape(-1)
    return tier


def _spreadable(shards: Shards, containers_of: Ints) -> Ints:
    """Splits groups into parts of at most as many shards as there are containers for them, so that each can spread."""
    rank = rank_in_group(shards.spread)
    part = rank // np.maximum(containers_of[shards.constraint], 1)
    groups = np.full(len(shards.ids), NO_GROUP, dtype=np.int64)
    within = shards.spread != NO_GROUP
    if within.any():
        parts = np.stack([shards.spread[within], part[within]], axis=1)
        groups[within] = np.unique(parts, axis=0, return_inverse=True)[1].reshape(-1)
    return groups


def rank_in_group(group: Ints) -> Ints:
    """How many earlier rows have the same group."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank


def _costs(move_seconds: Floats) -> Floats:
    typical = move_seconds.mean() if len(move_seconds) else 0.0
    return np.asarray(1 + move_seconds / typical if typical > 0 else np.ones(len(move_seconds)))
