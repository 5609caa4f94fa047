"""When shards are placed anew, and what comes of it: where each shard should be, and what to say of it. Pure.

A target stays until there is a reason for another; in between, moves towards it are carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from penstock.tasks.ownership import Member
from penstock.tasks.shards import Sharding
from services.shard_manager.placement.alerts import (
    UNPLACEABLE,
    PlacementAlert,
    alerts_of_jobs,
    alerts_of_shards,
    alerts_of_shortage,
)
from services.shard_manager.placement.cell import Rules, problem_of_cell
from services.shard_manager.placement.frame import ROUNDING, allowed
from services.shard_manager.placement.needs import Needs
from services.shard_manager.placement.place import home_of
from services.shard_manager.placement.problem import ANYWHERE, NOBODY, Floats, Ints, Problem
from services.shard_manager.placement.shortage import place_all

Assignment = Mapping[int, str]


class Reason(StrEnum):
    """Why shards are placed anew."""

    TAKEN_OVER = "taken over"
    FAIL_OVER = "containers were lost"
    CONTAINERS = "containers changed"
    SHARDS = "tasks are in other shards"
    OVERLOADED = "a container is overloaded"
    MISPLACED = "a shard is where its tasks may not run"
    UNFINISHED = "the last placement was not finished"
    PERIOD = "the period has passed"


class Broken(NamedTuple):
    """What an assignment does not keep to: containers that are overloaded, and in which dimension, and shards on
    containers that are not among those they are bound to."""

    overloaded: frozenset[tuple[str, str]] = frozenset()
    misplaced: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Figures:
    """What a container was given by: by dimension the load, the capacity less headroom, and how far the load is from
    even as a share of even (0.1: 10 % above)."""

    load: Mapping[str, float]
    usable: Mapping[str, float]
    deviation: Mapping[str, float]

    def as_json(self, at: datetime) -> dict[str, Any]:
        """As the store keeps it."""
        return {"at": at.isoformat(), "load": self.load, "usable": self.usable, "deviation": self.deviation}


@dataclass(frozen=True, eq=False)
class Target:
    """Where each shard should be, by number under `sharding`: what the shards are to be, when those that become one are
    to be together.

    `where` leaves out shards that have no place; `order`: shards that have to move, those that should go first before
    the others. `hosts`: what was known of the containers (`hosts_of`). `broken`: what could not be kept to.
    `placed_at` in monotonic seconds. `settled`: nothing is to be gained by placing again soon.
    """

    where: Assignment
    order: tuple[int, ...]
    sharding: Sharding
    hosts: Mapping[str, object]
    placed_at: float
    settled: bool
    broken: Broken
    figures: Mapping[str, Figures]
    worst_band: Mapping[str, float]
    unplaceable: int
    alerts: tuple[PlacementAlert, ...]

    def number_of(self, shard: int) -> int:
        """What a shard of a multiple of the target's count is a part of."""
        return shard % max(self.sharding.count, 1)

    def place_of(self, shard: int) -> str | None:
        """Where such a shard should be; None without a place."""
        return self.where.get(self.number_of(shard))


class Seen(NamedTuple):
    """What a target does not keep to, and what is to be said of it."""

    broken: Broken
    alerts: tuple[PlacementAlert, ...]


class Periods(NamedTuple):
    """Seconds between placements: usually, and when the last one was not finished."""

    usual: float
    unfinished: float


def hosts_of(members: Mapping[str, Member]) -> dict[str, object]:
    """What placement depends on, by name of container: not which life of it this is."""
    return {name: (each.region, each.capacity(), each.labels, each.availability) for name, each in members.items()}


def to_place_on(members: Mapping[str, Member], now: datetime) -> dict[str, Member]:
    """Live containers without those whose drain has come to its limit: what they still hold goes to others, whether
    there is room or not."""
    return {name: each for name, each in members.items() if each.drain_until is None or now < each.drain_until}


def reason_to_place(
    target: Target | None, hosts: Mapping[str, object], sharding: Sharding, now: float, periods: Periods
) -> Reason | None:
    """Why the target is not good any more, whatever the loads are; None when it is."""
    if target is None:
        return Reason.TAKEN_OVER
    if target.hosts != hosts:
        return Reason.CONTAINERS
    if target.sharding != sharding:
        return Reason.SHARDS
    if now - target.placed_at >= periods.usual:
        return Reason.PERIOD
    if not target.settled and now - target.placed_at >= periods.unfinished:
        return Reason.UNFINISHED
    return None


def reason_of_needs(target: Target, broken: Broken) -> Reason | None:
    """Why new needs ask for another target; None for what was known, and could not be kept to, when it was made."""
    if broken.misplaced - target.broken.misplaced:
        return Reason.MISPLACED
    if broken.overloaded - target.broken.overloaded:
        return Reason.OVERLOADED
    return None


def target_of(members: Mapping[str, Member], needs: Needs, present: Assignment, rules: Rules, now: float) -> Target:
    """Places all shards. `members`: by `to_place_on`; `present`: owners, shards in flight at their destination."""
    cell = problem_of_cell(members, needs, present, rules)
    placement, short, asked = place_all(cell.problem, present)
    unplaceable = {lack.shard: lack for lack in (*placement.unplaceable, *short)}
    holder = placement.holder
    total = _totals(cell.problem, holder)
    return Target(
        where=placement.assignment,
        order=tuple(placement.moved.tolist()),
        sharding=needs.sharding,
        hosts=hosts_of(members),
        placed_at=now,
        settled=not placement.goes_on,
        broken=_broken(cell.problem, holder, total),
        figures=_figures(cell.problem, total, placement.deviation),
        worst_band=_by_dimension(cell.problem, np.abs(placement.deviation).max(axis=0, initial=0.0)),
        unplaceable=len(unplaceable),
        alerts=(
            *alerts_of_shortage(asked),
            *alerts_of_shards(unplaceable.values(), placement.assignment),
            *alerts_of_jobs(cell.unmet),
        ),
    )


def look_at(target: Target, members: Mapping[str, Member], needs: Needs, rules: Rules) -> Seen:
    """A target in the light of newer needs."""
    cell = problem_of_cell(members, needs, target.where, rules)
    holder = home_of(cell.problem, target.where)
    of_shards = (alert for alert in target.alerts if alert.kind == UNPLACEABLE)
    broken = _broken(cell.problem, holder, _totals(cell.problem, holder))
    return Seen(broken, (*of_shards, *alerts_of_jobs(cell.unmet)))


def _broken(problem: Problem, holder: Ints, total: Floats) -> Broken:
    containers, shards = problem.containers, problem.shards
    over = np.argwhere(total > _usable(problem) * (1 + ROUNDING)).tolist()
    misplaced = np.zeros(len(shards.ids), dtype=np.bool_)
    for kind, constraint in enumerate(shards.constraints):
        if constraint == ANYWHERE:
            continue
        rows = np.flatnonzero((shards.constraint == kind) & (holder != NOBODY))
        misplaced[rows] = ~allowed(containers, constraint)[holder[rows]]
    overloaded = frozenset((containers.names[row], problem.dimensions[column]) for row, column in over)
    return Broken(overloaded, frozenset(shards.ids[misplaced].tolist()))


def _figures(problem: Problem, total: Floats, deviation: Floats) -> dict[str, Figures]:
    usable = _usable(problem)
    return {
        name: Figures(*(_by_dimension(problem, table[row]) for table in (total, usable, deviation)))
        for row, name in enumerate(problem.containers.names)
    }


def _by_dimension(problem: Problem, values: Floats) -> dict[str, float]:
    return dict(zip(problem.dimensions, values.tolist(), strict=True))


def _usable(problem: Problem) -> Floats:
    return problem.containers.capacity * (1 - problem.containers.headroom)[:, None]


def _totals(problem: Problem, holder: Ints) -> Floats:
    """The load of each container [C, D]."""
    rows = np.flatnonzero(holder != NOBODY)
    count = len(problem.containers.names)
    sums = [np.bincount(holder[rows], weights=column, minlength=count) for column in problem.shards.load[rows].T]
    return np.stack(sums, axis=1).astype(np.float64)
