"""Fleets of shards and containers with the shape of Turbine, figure 5, as columns: the same ones for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.tasks.taking import ANYWHERE, Constraint
from services.shard_manager.placement.problem import NO_GROUP, Containers, Floats, Problem, Shards, State

REGIONS = ("east", "north", "west")
CORES = (48, 56)
HEADROOM = 0.1
FULL = 0.55
"""How much of the usable capacity is used on average: after the loss of a region, of three, 0.83."""
LARGEST = 0.2
"""No shard uses more of a container: the scaler splits jobs before that."""
JOB_TASKS = 16


def fleet(shards: int, containers: int, seed: int = 7, *, full: float = FULL, largest: float = LARGEST) -> Problem:
    """Four in five shards use less than a core, one in fifty more than four; all use 0.4 GB or more; tails are long.

    Containers have 48 or 56 cores, in three regions; the rest of their capacity follows from `full`.
    """
    chance = np.random.default_rng(seed)
    cpu = chance.lognormal(-1.0, 1.2, shards).clip(0.02, None)
    memory = 0.4 + chance.lognormal(-1.2, 0.8, shards)
    disk = chance.lognormal(0.0, 1.0, shards)
    network = cpu * chance.lognormal(0.0, 0.4, shards)
    load = np.stack([cpu, memory, disk, network], axis=1)
    usable = load.sum(axis=0) / containers / full
    cores = np.array(CORES)[np.arange(containers) % 2] / np.mean(CORES)
    capacity = np.tile(usable / (1 - HEADROOM), (containers, 1))
    capacity[:, 0] *= cores
    return Problem(_containers(capacity), _shards(np.minimum(load, usable * cores.min() * largest)))


def with_load(problem: Problem, load: Floats, largest: float = LARGEST) -> Problem:
    """The same with other loads, none above what a container may be asked for."""
    usable = (problem.containers.capacity * (1 - problem.containers.headroom)[:, None]).min(axis=0)
    return replace(problem, shards=replace(problem.shards, load=np.minimum(load, usable * largest)))


def changed(problem: Problem, share: float, seed: int = 8, *, largest: float = LARGEST) -> Problem:
    """Every load, in every dimension by itself, changed by so much (standard deviation of its logarithm)."""
    load = problem.shards.load
    return with_load(problem, load * np.random.default_rng(seed).lognormal(0.0, share, load.shape), largest)


def without(problem: Problem, gone: np.ndarray) -> Problem:
    """The same without some containers [C]."""
    old, left = problem.containers, ~gone
    containers = replace(
        old,
        names=tuple(np.array(old.names, dtype=object)[left]),
        capacity=old.capacity[left],
        headroom=old.headroom[left],
        region=old.region[left],
        labels=old.labels[left],
        state=old.state[left],
    )
    return replace(problem, containers=containers)


def constrained(problem: Problem, seed: int = 9) -> Problem:
    """The same with one shard in four bound to a region, jobs of 16 tasks and three priorities."""
    chance, count = np.random.default_rng(seed), len(problem.shards.ids)
    constraints = (ANYWHERE, *(Constraint(regions=frozenset([region])) for region in REGIONS))
    bound = np.where(chance.random(count) < 0.25, chance.integers(1, len(constraints), count), 0)
    number = np.arange(count)
    shards = replace(
        problem.shards,
        constraint=bound.astype(np.int64),
        constraints=constraints,
        priority=chance.integers(-1, 2, count),
        spread=number // JOB_TASKS,
        move_seconds=chance.lognormal(1.0, 1.0, count),
    )
    return replace(problem, shards=shards)


def _containers(capacity: Floats) -> Containers:
    count = len(capacity)
    return Containers(
        names=tuple(f"container-{number:06d}" for number in range(count)),
        capacity=capacity,
        headroom=np.full(count, HEADROOM),
        region=np.arange(count) % len(REGIONS),
        labels=np.zeros((count, 0), dtype=np.bool_),
        state=np.full(count, State.OPEN),
        region_names=REGIONS,
        label_names=(),
    )


def _shards(load: Floats) -> Shards:
    count = len(load)
    nothing = np.zeros(count, dtype=np.int64)
    return Shards(
        ids=np.arange(count),
        load=load,
        constraint=nothing,
        constraints=(ANYWHERE,),
        priority=nothing,
        move_seconds=np.zeros(count),
        spread=np.full(count, NO_GROUP),
    )
