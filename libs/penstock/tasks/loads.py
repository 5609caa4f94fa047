"""The load of each shard: the sum of its tasks' loads, measured or estimated. Pure.

An unknown load of a task is estimated in each dimension by the first known of: the mean of the job's other tasks, the
job's reservation for a task, the mean of all tasks, the assumption of the dimension (`penstock.tasks.dimensions`).
Unknown is never zero; a measured zero is a zero. A task with its own process counts its reservation, whatever it uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.tasks.dimensions import DIMENSIONS, Amounts, Dimension
from penstock.tasks.ownership import Avoidance
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class JobTasks(NamedTuple):
    """A job's tasks: their number and generation, the reservation for each, and where they may run.

    `selector` None: on any container. `avoids`: what some of its tasks avoid now.
    """

    job: str
    task_count: int
    generation: int
    has_own_processes: bool
    reserved: Amounts
    selector: str | None = None
    priority: int = 0
    avoids: tuple[Avoidance, ...] = ()


class TaskLoad(NamedTuple):
    """The load of a task of a generation; a missing dimension is unknown. `number`: the index of the task."""

    job: str
    number: int
    generation: int
    load: Amounts


class TaskLoads(NamedTuple):
    """T tasks, those of a job together and in order of index, and D dimensions.

    `values` [T, D]; `measured` [T, D]: where they are not an estimate; `first` [jobs + 1]: where each job's begin.
    """

    values: Floats
    measured: NDArray[np.bool_]
    first: Ints


def with_avoided(jobs: Iterable[JobTasks], avoided: Iterable[Avoidance]) -> list[JobTasks]:
    """The jobs with what their tasks avoid; those of other jobs are left out."""
    by_job: dict[str, list[Avoidance]] = defaultdict(list)
    for each in avoided:
        by_job[each.job].append(each)
    return [job._replace(avoids=tuple(by_job[job.job])) if job.job in by_job else job for job in jobs]


def task_loads(
    jobs: Sequence[JobTasks], reported: Iterable[TaskLoad], dimensions: Sequence[Dimension] = DIMENSIONS
) -> TaskLoads:
    """The load of every task of `jobs`.

    Reported loads of other tasks are ignored. So are those of another generation, whose tasks had other shares of the
    job's input.
    """
    first = np.concatenate(([0], np.cumsum([job.task_count for job in jobs], dtype=np.int64)))
    values = _measured(jobs, reported, dimensions, first)
    measured = ~np.isnan(values)
    if jobs:
        of_job = np.repeat(np.arange(len(jobs)), np.diff(first))
        estimates = _estimates(jobs, values, dimensions, of_job)
        isolated = np.array([job.has_own_processes for job in jobs])
        reserved = np.where(isolated[:, None], _reserved(jobs, dimensions), np.nan)[of_job]
        values = np.where(measured, values, estimates[of_job])
        values = np.where(np.isnan(reserved), values, reserved)
    return TaskLoads(values, measured, first)


def task_shards(jobs: Sequence[JobTasks], sharding: Sharding) -> Ints:
    """[T]: the shard of every task, in the order of `TaskLoads`. Raises TypeError for a selector without a slot."""
    found = (
        sharding.shard_of(task_id(job.job, index), job.selector) for job in jobs for index in range(job.task_count)
    )
    return np.fromiter(found, dtype=np.int64)


def shard_loads(shards: Ints, loads: TaskLoads, shard_count: int) -> Floats:
    """[shard_count, D]: the load of each shard; `shards`: by `task_shards`. A shard without tasks has load 0."""
    columns = [np.bincount(shards, weights=column, minlength=shard_count) for column in loads.values.T]
    return np.stack(columns, axis=1)


def _measured(
    jobs: Sequence[JobTasks], reported: Iterable[TaskLoad], dimensions: Sequence[Dimension], first: Ints
) -> Floats:
    """[T, D]: the reported loads; NaN where none is known, or the report is invalid."""
    places = {job.job: (int(at), job.task_count, job.generation) for job, at in zip(jobs, first, strict=False)}
    rows, amounts = [], []
    for job, index, generation, load in reported:
        at, count, present = places.get(job, (0, 0, 0))
        if index < count and generation == present:
            rows.append(at + index)
            amounts.append(load)
    values = np.full((int(first[-1]), len(dimensions)), np.nan)
    values[rows] = _table(amounts, dimensions)
    return values


def _estimates(jobs: Sequence[JobTasks], values: Floats, dimensions: Sequence[Dimension], of_job: Ints) -> Floats:
    """[jobs, D]: the estimate for a task of each job."""
    known = ~np.isnan(values)
    sums, counts = (
        np.stack([np.bincount(of_job, weights=column, minlength=len(jobs)) for column in table.T], axis=1)
        for table in (np.where(known, values, 0.0), known.astype(float))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        of_others, of_all = sums / counts, sums.sum(axis=0) / counts.sum(axis=0)
    estimates = np.where(counts > 0, of_others, _reserved(jobs, dimensions))
    estimates = np.where(np.isnan(estimates), of_all, estimates)
    return np.where(np.isnan(estimates), [dimension.assumed for dimension in dimensions], estimates)


def _reserved(jobs: Sequence[JobTasks], dimensions: Sequence[Dimension]) -> Floats:
    """[jobs, D], NaN where a job reserves nothing."""
    return _table([job.reserved for job in jobs], dimensions)


def _table(rows: Sequence[Amounts], dimensions: Sequence[Dimension]) -> Floats:
    """[rows, D]: the amounts; NaN where one is missing, or is no amount at all."""
    values = np.empty((len(rows), len(dimensions)))
    for column, dimension in enumerate(dimensions):
        values[:, column] = _numbers([row.get(dimension.name, np.nan) for row in rows])
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def _numbers(found: list[Any]) -> Floats:
    """What was read, which should be numbers, as numbers. One that is none is NaN and harms no other."""
    try:
        numbers = np.array(found, dtype=np.float64)
        if numbers.ndim == 1:
            return numbers
    except (TypeError, ValueError, OverflowError):
        pass
    return np.array([_number(each) for each in found])


def _number(found: Any) -> float:
    try:
        return float(found)
    except (TypeError, ValueError, OverflowError):
        return np.nan
