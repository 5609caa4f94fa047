"""The needs of a cell's shards, from its jobs and from the loads of their tasks. Pure.

A shard is a bucket of tasks. It uses the sum of what its tasks use, and is as important as its most important task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.tasks.dimensions import DIMENSIONS, DISK
from penstock.tasks.loads import JobTasks, TaskLoad, shard_loads, task_loads, task_shards
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id
from services.shard_manager.placement.problem import NO_GROUP, Floats, Ints

RESTART_SECONDS = 1.0
"""What starting a task again costs, besides reading its state."""
STATE_BYTES_PER_SECOND = 100e6
"""How fast a task's state is read again on the new container, for the cost of a move."""

_DISK = [dimension.name for dimension in DIMENSIONS].index(DISK)


@dataclass(frozen=True)
class Asks:
    """Which jobs ask for a region or labels: one row [A] for each shard and job with tasks in it.

    Rows are in order of shard, then importance (priority, then number of tasks there). `job` and `selector` are indexes
    into `jobs` and `selectors`.
    """

    shard: Ints
    job: Ints
    selector: Ints
    jobs: tuple[str, ...]
    selectors: tuple[str, ...]


@dataclass(frozen=True)
class Needs:
    """By shard [S], 0 to S - 1, as in `problem.Shards`. `spread`: the first job with a task in the shard.

    `nowhere`: the jobs whose selector has no slot, as (job, selector). `avoids`: the names of containers that some task
    of a shard avoids.
    """

    sharding: Sharding
    load: Floats
    priority: Ints
    move_seconds: Floats
    spread: Ints
    asks: Asks
    nowhere: tuple[tuple[str, str], ...]
    avoids: Mapping[int, frozenset[str]] = field(default_factory=dict)


def needs_of(jobs: Iterable[JobTasks], reported: Iterable[TaskLoad], sharding: Sharding) -> Needs:
    """The needs. `jobs`: those whose tasks should run, each once; `reported`: the known loads of tasks."""
    asking, shard_count = sorted(jobs, key=lambda job: job.job), sharding.count
    placed = {None, *sharding.selectors}
    ordered = [job for job in asking if job.selector in placed]
    others = [(job.job, job.selector) for job in asking if job.selector is not None and job.selector not in placed]
    shard = task_shards(ordered, sharding)
    of_job = np.repeat(np.arange(len(ordered)), np.array([job.task_count for job in ordered], dtype=np.int64))
    load = shard_loads(shard, task_loads(ordered, reported), shard_count)
    tasks = np.bincount(shard, minlength=shard_count)
    return Needs(
        sharding=sharding,
        load=load,
        priority=_greatest(shard, np.array([job.priority for job in ordered], dtype=np.int64)[of_job], shard_count),
        move_seconds=tasks * RESTART_SECONDS + load[:, _DISK] / STATE_BYTES_PER_SECOND,
        spread=_first(shard, of_job, shard_count),
        asks=_asks(ordered, shard, of_job),
        nowhere=tuple(others),
        avoids=_avoids(ordered, sharding),
    )


def _avoids(jobs: Iterable[JobTasks], sharding: Sharding) -> dict[int, frozenset[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for job in jobs:
        for task in job.avoids:
            shard = sharding.shard_of(task_id(job.job, task.index), job.selector)
            if shard is not None and task.index < job.task_count:
                found[shard].add(task.container)
    return {shard: frozenset(names) for shard, names in found.items()}


def _greatest(shard: Ints, values: Ints, shard_count: int) -> Ints:
    """The greatest value of each shard's tasks; 0 for a shard without tasks."""
    lowest = np.iinfo(np.int64).min
    greatest = np.full(shard_count, lowest)
    np.maximum.at(greatest, shard, values)
    return np.where(greatest == lowest, 0, greatest)


def _first(shard: Ints, of_job: Ints, shard_count: int) -> Ints:
    """The first job of each shard, numbered without gaps; `NO_GROUP` for a shard without tasks."""
    highest = np.iinfo(np.int64).max
    first = np.full(shard_count, highest)
    np.minimum.at(first, shard, of_job)
    _, number = np.unique(np.append(np.where(first == highest, NO_GROUP, first), NO_GROUP), return_inverse=True)
    return np.asarray(number.reshape(-1)[:-1] - 1)


def _asks(jobs: Sequence[JobTasks], shard: Ints, of_job: Ints) -> Asks:
    selectors = sorted({job.selector for job in jobs if job.selector is not None})
    index = {selector: place for place, selector in enumerate(selectors)}
    selector = np.array([-1 if job.selector is None else index[job.selector] for job in jobs], dtype=np.int64)
    priority = np.array([job.priority for job in jobs], dtype=np.int64)
    asking = selector[of_job] >= 0
    pairs, tasks = np.unique(shard[asking] * max(len(jobs), 1) + of_job[asking], return_counts=True)
    shards, of = np.divmod(pairs, max(len(jobs), 1))
    order = np.lexsort((of, -tasks, -priority[of], shards))
    return Asks(shards[order], of[order], selector[of[order]], tuple(job.job for job in jobs), tuple(selectors))
