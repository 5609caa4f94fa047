"""What follows from a problem alone: allowed containers, tiers, capacities. Computed once for each placement. Pure.

A tier is a set of open containers that may take the same shards: no shard's region or labels tell them apart. Bands are
kept within a tier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.tasks.taking import Constraint
from services.shard_manager.placement.problem import (
    NO_GROUP,
    NOBODY,
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

    `home` [S]: where each shard was, or `NOBODY`; `free` [S]: the shards that have to move in any case. `usable`
    [C, D]: capacity less headroom; `limit` [C, D]: the same with room for rounding; `per_unit` [C, D]: factors that
    turn loads into shares of it. `may_stay` [K, C]: the constraint holds and the container does not drain. `may_enter`
    [K, C]: the constraint holds and the container is open. `tier` [C]: -1 when not open. `spread` [S]: groups of shards
    that should be on different containers. `cost` [S]: of a move, 1 or more. `columns` [D, S + 1]: loads by dimension,
    with a 0 at the end for index `NOBODY`.
    """

    problem: Problem
    home: Ints
    free: Flags
    usable: Floats
    limit: Floats
    per_unit: Floats
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
    def constraint(self) -> Ints:
        """The constraint of each shard [S]."""
        return self.problem.shards.constraint


def frame_of(problem: Problem, home: Ints) -> Frame:
    """Computes the frame of a problem; no shard is free yet."""
    containers, shards = problem.containers, problem.shards
    usable, is_open = containers.usable, containers.state == State.OPEN
    satisfies = _satisfies(containers, shards.constraints)
    may_enter = satisfies & is_open
    return Frame(
        problem=problem,
        home=home,
        free=np.zeros(len(shards.ids), dtype=np.bool_),
        usable=usable,
        limit=usable * (1 + ROUNDING),
        per_unit=1 / np.where(usable > 0, usable, 1.0),
        satisfies=satisfies,
        may_stay=satisfies & (containers.state != State.DRAINING),
        may_enter=may_enter,
        tier=_tiers(may_enter[np.unique(shards.constraint)], is_open),
        spread=_spreadable(shards, may_enter.sum(axis=1)),
        cost=1 + part_of(shards.move_seconds, shards.move_seconds.mean() if len(shards.ids) else 0.0),
        columns=np.ascontiguousarray(np.pad(shards.load, ((0, 1), (0, 0))).T),
    )


def part_of(part: Floats | float, whole: Floats | float) -> Floats:
    """`part / whole`; 0 where `whole` is 0."""
    shape = np.broadcast_shapes(np.shape(part), np.shape(whole))
    return np.asarray(np.divide(part, whole, out=np.zeros(shape), where=np.asarray(whole) > 0))


def totals(frame: Frame, holder: Ints) -> Floats:
    """The load of each container [C, D]. `holder` [S]: the container of each shard, or `NOBODY`."""
    return column_totals(frame.columns, holder, len(frame.usable))


def column_totals(columns: Floats, holder: Ints, containers: int) -> Floats:
    """The sums of `columns` [D, S + 1] by container [C, D], added in the order of the shards."""
    bucket, count = holder + 1, containers + 1
    sums = [np.bincount(bucket, weights=column[:-1], minlength=count)[1:] for column in columns]
    return np.stack(sums, axis=1).astype(np.float64)


def holds(frame: Frame, flags: Flags, holder: Ints) -> Flags:
    """Whether the flag [K, C] of each shard's constraint and container is set [S]; not for `NOBODY`."""
    padded = np.append(flags, np.zeros((len(flags), 1), dtype=np.bool_), axis=1)
    return np.asarray(padded[frame.constraint, holder])


def budget_left(frame: Frame, holder: Ints) -> float:
    """The move budget less the moves that were made; infinite without a budget."""
    budget = frame.problem.move_budget
    moved = (holder != NOBODY) & (frame.home != NOBODY) & (holder != frame.home)
    return np.inf if budget is None else max(0, budget - int(moved.sum()))


def moves_away(frame: Frame, rows: Ints, source: Ints, destination: Ints) -> Ints:
    """How much of the budget each move takes: -1 for a move home. `rows` may be `NOBODY`, for no shard."""
    home = np.append(frame.home, NOBODY)[rows]
    return np.where(home == NOBODY, 0, (destination != home).astype(np.int64) - (source != home))


def _satisfies(containers: Containers, constraints: tuple[Constraint, ...]) -> Flags:
    rows = [_allowed(containers, constraint) for constraint in constraints]
    return np.array(rows, dtype=np.bool_).reshape(len(constraints), len(containers.names))


def _allowed(containers: Containers, constraint: Constraint) -> Flags:
    """The containers [C] where the constraint holds."""
    holds = np.ones(len(containers.names), dtype=np.bool_)
    if constraint.regions:
        named = np.array([name in constraint.regions for name in containers.region_names], dtype=np.bool_)
        holds &= named[containers.region]
    for label in constraint.labels:
        known = label in containers.label_names
        holds &= containers.labels[:, containers.label_names.index(label)] if known else False
    if constraint.avoids:
        holds &= np.array([name not in constraint.avoids for name in containers.names], dtype=np.bool_)
    return holds


def _tiers(may_enter: Flags, is_open: Flags) -> Ints:
    tier = np.full(len(is_open), -1, dtype=np.int64)
    if is_open.any():
        tier[is_open] = np.unique(may_enter[:, is_open], axis=1, return_inverse=True)[1].reshape(-1)
    return tier


def _spreadable(shards: Shards, containers_of: Ints) -> Ints:
    """Splits groups into parts of at most as many shards as there are containers for them, so that each can spread."""
    rank = _rank_in_group(shards.spread)
    part = rank // np.maximum(containers_of[shards.constraint], 1)
    groups = np.full(len(shards.ids), NO_GROUP, dtype=np.int64)
    within = shards.spread != NO_GROUP
    if within.any():
        parts = np.stack([shards.spread[within], part[within]], axis=1)
        groups[within] = np.unique(parts, axis=0, return_inverse=True)[1].reshape(-1)
    return groups


def _rank_in_group(group: Ints) -> Ints:
    """How many earlier rows have the same group."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank
