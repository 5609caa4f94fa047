"""Placement when capacity is short: everything runs all the same, and the excess is shared out evenly. Pure.

Capacity less headroom is how far containers are filled by choice. A task is neither stopped nor kept from starting for
a measurement or an estimate that is too large: that would turn a shortage into an outage. So where shards do not fit,
all containers are taken to be larger, by the same factor, until they do: bands even out what that brings. People are
told which shards had no room; which jobs give way is for the Capacity Manager to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.frame import ROUNDING
from services.shard_manager.placement.place import Placement, home_of, place
from services.shard_manager.placement.problem import NOBODY, Problem, State
from services.shard_manager.placement.reasons import Cause, Unplaceable

_FOR_WANT_OF_CAPACITY = (Cause.CAPACITY_SHORT, Cause.TOO_LARGE)
_STEP = 1.25
_SLACK = 1.1
"""Shards do not fill containers without gaps."""
_UNLIMITED = 1e9


class Placed(NamedTuple):
    """`short`: shards for which there is no room, though all together would fit: they are placed all the same, or left
    on a container that drains. `asked`: by dimension, where open containers have to take more than they offer, their
    share of what is offered."""

    placement: Placement
    short: tuple[Unplaceable, ...]
    asked: Mapping[str, float]


def place_all(problem: Problem, previous: Mapping[int, str]) -> Placed:
    """As `place`, but shards that only capacity leaves without a place get one."""
    asked = _asked(problem, previous)
    fullest = max(asked.values(), default=0.0)
    if fullest > 1:
        return Placed(_first_that_fits(problem, previous, fullest), (), {k: v for k, v in asked.items() if v > 1})
    within = place(problem, previous)
    short = tuple(lack for lack in within.unplaceable if lack.cause in _FOR_WANT_OF_CAPACITY)
    if any(_is_homeless(lack) for lack in short):
        return Placed(_first_that_fits(problem, previous, 1.0), short, {})
    return Placed(within, short, {})


def _first_that_fits(problem: Problem, previous: Mapping[int, str], fullest: float) -> Placement:
    """By a factor that may be enough, in coarse steps, so that small changes of loads do not change it; else by any."""
    least = min(fullest, _UNLIMITED) * _SLACK
    placement = place(_larger(problem, _STEP ** math.ceil(math.log(least, _STEP))), previous)
    if any(_is_homeless(lack) for lack in placement.unplaceable):
        return place(_larger(problem, _UNLIMITED), previous)
    return placement


def _is_homeless(lack: Unplaceable) -> bool:
    return lack.cause in _FOR_WANT_OF_CAPACITY and lack.stays_on is None


def _asked(problem: Problem, previous: Mapping[int, str]) -> dict[str, float]:
    """What open containers have to take together by dimension, as a share of what they offer: all shards, without those
    that the others hold and have room for, which can stay there."""
    containers, holder = problem.containers, home_of(problem, previous)
    usable = containers.capacity * (1 - containers.headroom)[:, None]
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
