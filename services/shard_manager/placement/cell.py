"""From what the Shard Manager knows of a cell to a problem, and from a placement to alerts. Pure.

Shards are buckets of tasks: a shard may be where all of its tasks may be, and is as important as its most important.
What is unknown is not zero: a capacity that a container does not tell is taken from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.tasks.ownership import Member
from penstock.tasks.shards import shard_of
from penstock.tasks.spec import task_id
from services.shard_manager.placement.build import Container, containers_of
from services.shard_manager.placement.place import Placement
from services.shard_manager.placement.problem import (
    ANYWHERE,
    NO_GROUP,
    Constraint,
    Floats,
    Ints,
    Problem,
    Shards,
    State,
)

UNBOUNDED = 1e15
"""The capacity of a dimension that no container tells: nothing is too large for it, and it is shared out evenly."""


class JobNeeds(NamedTuple):
    """What a job asks of the containers of its tasks. `restart_seconds`: what starting one of them again costs."""

    job: str
    task_count: int
    region: str | None = None
    labels: frozenset[str] = frozenset()
    priority: int = 0
    restart_seconds: float = 1.0


@dataclass(frozen=True)
class ShardNeeds:
    """By shard [S], as in `problem.Shards`. `spread`: the first job with a task in it."""

    constraint: Ints
    constraints: tuple[Constraint, ...]
    priority: Ints
    move_seconds: Floats
    spread: Ints


class PlacementRules(NamedTuple):
    """Settings of placement."""

    dimensions: tuple[str, ...]
    headroom: float
    band: float
    move_budget: int | None


class PlacementAlert(NamedTuple):
    """One for all shards that have no place for the same reason; `shards` in order."""

    cause: str
    reason: str
    shards: tuple[int, ...]


def shard_needs(jobs: Iterable[JobNeeds], shard_count: int) -> ShardNeeds:
    """What each shard asks, from its tasks; a shard without tasks may be anywhere.

    Tasks of different regions in one shard leave it without a place, which is said of it: "no container of region
    east and west".
    """
    ordered = sorted(jobs)
    shard, of_job = _tasks(ordered, shard_count)
    lowest, seconds = np.iinfo(np.int64).min, np.array([job.restart_seconds for job in ordered])
    priority, first_job = np.full(shard_count, lowest), np.full(shard_count, len(ordered))
    np.maximum.at(priority, shard, np.array([job.priority for job in ordered], dtype=np.int64)[of_job])
    np.minimum.at(first_job, shard, of_job)
    constraint, constraints = _constraints(ordered, shard, of_job, shard_count)
    return ShardNeeds(
        constraint=constraint,
        constraints=constraints,
        priority=np.where(priority == lowest, 0, priority),
        move_seconds=np.bincount(shard, weights=seconds[of_job], minlength=shard_count).astype(np.float64),
        spread=_numbered(np.where(first_job == len(ordered), NO_GROUP, first_job)),
    )


def problem_of_cell(
    members: Iterable[Member],
    states: Mapping[str, State],
    labels: Mapping[str, frozenset[str]],
    capacity: Mapping[str, Mapping[str, float]],
    load: Floats,
    needs: ShardNeeds,
    rules: PlacementRules,
) -> Problem:
    """The problem of a cell: its live members, and shards 0 to S - 1 with `load` [S, D] in the order of the rules'
    dimensions. `states`, `labels` and `capacity` are by name of container; one that has no state is open.
    """
    live = [member for member in members if member.live]
    told = [capacity.get(member.name, {}) for member in live]
    complete = _completed(told, rules.dimensions)
    hosts = [
        Container(
            name=member.name,
            capacity=offered,
            region=member.region,
            labels=labels.get(member.name, frozenset()),
            state=states.get(member.name, State.OPEN),
            headroom=rules.headroom,
        )
        for member, offered in zip(live, complete, strict=True)
    ]
    count = len(load)
    shards = Shards(
        ids=np.arange(count),
        load=load,
        constraint=needs.constraint,
        constraints=needs.constraints,
        priority=needs.priority,
        move_seconds=needs.move_seconds,
        spread=needs.spread,
        replica=np.full(count, NO_GROUP),
    )
    return Problem(containers_of(hosts, rules.dimensions), shards, rules.dimensions, rules.band, rules.move_budget)


def alerts_of(placement: Placement) -> tuple[PlacementAlert, ...]:
    """What people should know, one alert a reason, in order of reason."""
    shards: dict[tuple[str, str], list[int]] = {}
    for lack in placement.unplaceable:
        reason = lack.reason if lack.stays_on is None else f"{lack.reason}; it stays on {lack.stays_on}, which drains"
        shards.setdefault((lack.cause.value, reason), []).append(lack.shard)
    return tuple(PlacementAlert(*key, tuple(sorted(numbers))) for key, numbers in sorted(shards.items()))


def _tasks(jobs: Sequence[JobNeeds], shard_count: int) -> tuple[Ints, Ints]:
    """The shard and the job of every task [T]."""
    names = (task_id(job.job, number) for job in jobs for number in range(job.task_count))
    shard = np.fromiter((shard_of(name, shard_count) for name in names), dtype=np.int64)
    return shard, np.repeat(np.arange(len(jobs)), np.array([job.task_count for job in jobs], dtype=np.int64))


def _constraints(
    jobs: Sequence[JobNeeds], shard: Ints, of_job: Ints, shard_count: int
) -> tuple[Ints, tuple[Constraint, ...]]:
    asking = np.array([bool(job.region is not None or job.labels) for job in jobs], dtype=np.bool_)
    wanted: dict[int, list[JobNeeds]] = {}
    for task in np.flatnonzero(asking[of_job]):
        wanted.setdefault(int(shard[task]), []).append(jobs[of_job[task]])
    index = {ANYWHERE: 0}
    constraint = np.zeros(shard_count, dtype=np.int64)
    for number, needs in sorted(wanted.items()):
        constraint[number] = index.setdefault(_all_of(needs), len(index))
    return constraint, tuple(index)


def _all_of(needs: Sequence[JobNeeds]) -> Constraint:
    """What holds for all; where regions differ, a name that no region has and that says so."""
    regions = sorted({job.region for job in needs if job.region is not None})
    named = frozenset([" and ".join(regions)]) if regions else frozenset[str]()
    return Constraint(named, frozenset[str]().union(*(job.labels for job in needs)))


def _numbered(group: Ints) -> Ints:
    """The groups with numbers that leave no gaps; `NO_GROUP` stays."""
    _, number = np.unique(np.append(group, NO_GROUP), return_inverse=True)
    return np.asarray(number.reshape(-1)[:-1] - 1)


def _completed(told: Sequence[Mapping[str, float]], dimensions: Sequence[str]) -> list[dict[str, float]]:
    """Capacities with every dimension: one that is not told is the mean of those that are."""
    known = {name: [offered[name] for offered in told if name in offered] for name in dimensions}
    usual = {name: float(np.mean(values)) if values else UNBOUNDED for name, values in known.items()}
    return [{name: offered.get(name, usual[name]) for name in dimensions} for offered in told]
