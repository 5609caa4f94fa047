"""The target of placement: where each shard should be, the figures behind it, and its alerts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np

from penstock.model.alerts import AlertKind
from penstock.tasks.ownership import Member
from penstock.tasks.shards import Sharding
from services.shard_manager.moves.drains import to_be_emptied
from services.shard_manager.placement.alerts import PlacementAlert, alerts_of_jobs, alerts_of_shards, alerts_of_shortage
from services.shard_manager.placement.cell import Rules, problem_of_cell
from services.shard_manager.placement.frame import Frame, frame_of, holds, totals
from services.shard_manager.placement.needs import Needs
from services.shard_manager.placement.place import Placement, home_of
from services.shard_manager.placement.problem import NOBODY, Floats, Ints, Problem
from services.shard_manager.placement.shortage import place_all

Assignment = Mapping[int, str]
Figures = Mapping[str, Mapping[str, float]]


class Violations(NamedTuple):
    """What an assignment violates: overloaded containers, each with the dimension, and shards on containers that do
    not meet their selector."""

    overloaded: frozenset[tuple[str, str]] = frozenset()
    misplaced: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Target:
    """Where each shard should be, by its number under `sharding`.

    While shards are to be merged, `sharding` has the smaller count, and shards that become one have one place.
    `where` leaves out shards without a place. `order`: the shards that have to move, the most urgent first.
    `containers`: what the target assumed of them (`container_facts`). `violations`: what could not be avoided.
    `placed_at`: monotonic seconds. `finished`: another placement soon would gain nothing. `figures`: by container, then
    `load`, `usable` (capacity less headroom) and `deviation` (0.1: 10 % above the even load), by dimension.
    """

    where: Assignment
    order: tuple[int, ...]
    sharding: Sharding
    containers: Mapping[str, object]
    placed_at: float
    finished: bool
    violations: Violations
    figures: Mapping[str, Figures]
    worst_band: Mapping[str, float]
    unplaceable: int
    alerts: tuple[PlacementAlert, ...]

    def number_of(self, shard: int) -> int:
        """The number under `sharding` of a shard whose own count is a multiple of it."""
        return shard % max(self.sharding.count, 1)

    def place_of(self, shard: int) -> str | None:
        """The container where such a shard should be; None without a place."""
        return self.where.get(self.number_of(shard))


class Review(NamedTuple):
    """A target in the light of newer needs: what it violates now, and its alerts."""

    violations: Violations
    alerts: tuple[PlacementAlert, ...]


def container_facts(members: Mapping[str, Member]) -> dict[str, object]:
    """The facts of containers that placement depends on, by name. The incarnation is none of them."""
    return {name: (each.region, each.capacity(), each.labels, each.availability) for name, each in members.items()}


def usable_members(members: Mapping[str, Member], now: datetime) -> dict[str, Member]:
    """The live containers without those that must be emptied, even without room (`moves/drains.py`)."""
    emptied = to_be_emptied(members, now)
    return {name: each for name, each in members.items() if name not in emptied}


def target_of(members: Mapping[str, Member], needs: Needs, present: Assignment, rules: Rules, now: float) -> Target:
    """Places all shards. `members`: by `usable_members`; `present`: owners, moving shards at their destination."""
    cell = problem_of_cell(members, needs, present, rules)
    placement, short, asked = place_all(cell.problem, present)
    unplaceable = {lack.shard: lack for lack in (*placement.unplaceable, *short)}
    frame = frame_of(cell.problem, placement.holder)
    return Target(
        where=placement.assignment,
        order=tuple(placement.moved.tolist()),
        sharding=needs.sharding,
        containers=container_facts(members),
        placed_at=now,
        finished=not placement.worth_continuing,
        violations=_violations(frame, placement.holder),
        figures=_figures(frame, placement),
        worst_band=_by_dimension(cell.problem, np.abs(placement.deviation).max(axis=0, initial=0.0)),
        unplaceable=len(unplaceable),
        alerts=(
            *alerts_of_shortage(asked),
            *alerts_of_shards(unplaceable.values(), placement.assignment),
            *alerts_of_jobs(cell.unmet),
        ),
    )


def review(target: Target, members: Mapping[str, Member], needs: Needs, rules: Rules) -> Review:
    """Checks a target against newer needs."""
    cell = problem_of_cell(members, needs, target.where, rules)
    holder = home_of(cell.problem, target.where)
    of_shards = (alert for alert in target.alerts if alert.kind == AlertKind.UNPLACEABLE)
    return Review(_violations(frame_of(cell.problem, holder), holder), (*of_shards, *alerts_of_jobs(cell.unmet)))


def _violations(frame: Frame, holder: Ints) -> Violations:
    containers, over = frame.problem.containers, np.argwhere(totals(frame, holder) > frame.limit).tolist()
    misplaced = (holder != NOBODY) & ~holds(frame, frame.satisfies, holder)
    overloaded = frozenset((containers.names[row], frame.problem.dimensions[column]) for row, column in over)
    return Violations(overloaded, frozenset(frame.problem.shards.ids[misplaced].tolist()))


def _figures(frame: Frame, placement: Placement) -> dict[str, Figures]:
    tables = {"load": totals(frame, placement.holder), "usable": frame.usable, "deviation": placement.deviation}
    return {
        name: {what: _by_dimension(frame.problem, table[row]) for what, table in tables.items()}
        for row, name in enumerate(frame.problem.containers.names)
    }


def _by_dimension(problem: Problem, values: Floats) -> dict[str, float]:
    return dict(zip(problem.dimensions, values.tolist(), strict=True))
