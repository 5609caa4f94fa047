"""Placement when capacity is short: every shard still runs, and the excess is shared out evenly. Pure.

Capacity less headroom is how far containers are filled by choice. A measurement or estimate that is too large must not
stop a task or keep it from starting: that would turn a shortage into an outage. So when shards do not fit, all
containers are assumed to be larger by one factor until the shards fit, and bands spread the excess. An alert names the
shards without room. Nobody decides here which jobs give way. That shards avoid containers is given up
before: it must not be what a cell is too small for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.frame import ROUNDING, frame_of, holds
from services.shard_manager.placement.place import Placement, home_of, place
from services.shard_manager.placement.problem import NOBODY, Problem, State
from services.shard_manager.placement.reasons import Cause, Unplaceable

_FOR_WANT_OF_CAPACITY = (Cause.CAPACITY_SHORT, Cause.TOO_LARGE)
_STEP = 1.25
_SLACK = 1.1
"""Shards do not fill containers without gaps, so the factor has this much slack."""
_UNLIMITED = 1e9


class Placed(NamedTuple):
    """`short`: shards without room although the sum of all would fit; they are placed beyond capacity, or stay on a
    draining container. `asked`: by dimension, the load of the open containers as a share of their capacity, where it is
    above 1."""

    placement: Placement
    short: tuple[Unplaceable, ...]
    asked: Mapping[str, float]


def place_all(problem: Problem, previous: Mapping[int, str]) -> Placed:
    """As `place`, but shards that lack only capacity get a container too."""
    asked = _asked(problem, previous)
    fullest = max(asked.values(), default=0.0)
    could_stay = _could_stay(problem, previous)
    if fullest > 1:
        placement = _first_that_fits(problem, previous, fullest, could_stay)
        return Placed(placement, (), {k: v for k, v in asked.items() if v > 1})
    within, problem = _avoiding_where_it_fits(problem, previous)
    short = tuple(lack for lack in within.unplaceable if _is_short(lack, could_stay))
    if any(lack.stays_on is None for lack in short):
        return Placed(_first_that_fits(problem, previous, 1.0, could_stay), short, {})
    return Placed(within, short, {})


def _is_short(lack: Unplaceable, could_stay: Collection[int]) -> bool:
    """Whether only capacity is missing: also for a shard that lost its place, as it was allowed there."""
    return lack.cause in _FOR_WANT_OF_CAPACITY or lack.shard in could_stay


def _could_stay(problem: Problem, previous: Mapping[int, str]) -> frozenset[int]:
    """The shards that may stay where they are, though perhaps no new one may come there, as on a cordoned container.

    Such a shard is without a container only for want of capacity, whatever keeps it from all others.
    """
    frame = frame_of(problem, home_of(problem, previous))
    return frozenset(problem.shards.ids[holds(frame, frame.may_stay, frame.home)].tolist())


def _avoiding_where_it_fits(problem: Problem, previous: Mapping[int, str]) -> tuple[Placement, Problem]:
    """The placement, and the problem that it solves: shards without room avoid no container; where that is not enough,
    none does."""
    placement = place(problem, previous)
    for of_all in (False, True):
        homeless = {lack.shard for lack in placement.unplaceable if _is_homeless(lack)}
        asks_less = _without_avoids(problem, None if of_all else homeless)
        if not homeless or asks_less is problem:
            continue
        problem = asks_less
        placement = place(problem, previous)
    return placement, problem


def _without_avoids(problem: Problem, only: Collection[int] | None) -> Problem:
    """The same problem when none of the shards, None: of all, avoids a container."""
    shards = problem.shards
    avoiding = np.array([bool(asked.avoids) for asked in shards.constraints], dtype=np.bool_)[shards.constraint]
    freed = avoiding if only is None else avoiding & np.isin(shards.ids, list(only))
    if not freed.any():
        return problem
    constraints, constraint = list(shards.constraints), shards.constraint.copy()
    for row in np.flatnonzero(freed).tolist():
        asked = constraints[constraint[row]]._replace(avoids=frozenset())
        if asked not in constraints:
            constraints.append(asked)
        constraint[row] = constraints.index(asked)
    return replace(problem, shards=replace(shards, constraint=constraint, constraints=tuple(constraints)))


def _first_that_fits(
    problem: Problem, previous: Mapping[int, str], fullest: float, could_stay: Collection[int]
) -> Placement:
    """Places with larger containers. The factor goes in coarse steps, so that small load changes do not change it."""
    least = min(fullest, _UNLIMITED) * _SLACK
    placement = place(_larger(problem, _STEP ** math.ceil(math.log(least, _STEP))), previous)
    if any(lack.stays_on is None and _is_short(lack, could_stay) for lack in placement.unplaceable):
        return place(_larger(problem, _UNLIMITED), previous)
    return placement


def _is_homeless(lack: Unplaceable) -> bool:
    return lack.cause in _FOR_WANT_OF_CAPACITY and lack.stays_on is None


def _asked(problem: Problem, previous: Mapping[int, str]) -> dict[str, float]:
    """The load of the open containers by dimension, as a share of what they offer.

    Shards on other containers do not count as far as these have room for them, since they can stay.
    """
    containers, holder = problem.containers, home_of(problem, previous)
    usable = containers.usable
    is_open = containers.state == State.OPEN
    offered = usable[is_open].sum(axis=0)
    held = np.zeros_like(usable)
    np.add.at(held, holder[holder != NOBODY], problem.shards.load[holder != NOBODY])
    total = problem.shards.load.sum(axis=0)
    asked = total - np.minimum(held, usable)[~is_open].sum(axis=0)
    asked = np.where(asked > total * ROUNDING, asked, 0.0)
    share = np.divide(asked, offered, out=np.where(asked > 0, np.inf, 0.0), where=offered > 0)
    return dict(zip(problem.dimensions, share.tolist(), strict=True)) if len(offered) else {}


def _larger(problem: Problem, factor: float) -> Problem:
    containers = problem.containers
    return replace(problem, containers=replace(containers, capacity=containers.capacity * factor))
