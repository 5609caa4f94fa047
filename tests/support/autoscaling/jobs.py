"""The streaming jobs of the comparison: what does not change while they run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.config.keygroups import ranges
from tests.support.autoscaling.calibration import BASE_MEMORY_BYTES, STATE_BYTES_PER_MILLION_ROWS
from tests.support.autoscaling.traces import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEY_GROUPS = 64
# The default of `max_task_count`; all policies have it, like the number of key groups.
MAX_TASKS = 32
SLO_SECONDS = 90.0
MEMORY_BYTES = 512 * 2**20


class Job(NamedTuple):
    """A job and its input. `weights`: the share of the input of each key group. State in millions of rows."""

    trace: Trace
    weights: Floats
    state_millions: float = 0.0
    backend: str = "heap"
    isolated: bool = False
    memory_bytes: int = MEMORY_BYTES


def job_for(trace: Trace, rng: np.random.Generator) -> Job:
    """A job for a trace: mildly skewed; half of the jobs have state, every fifth has drivers of its own."""
    weights = rng.lognormal(0.0, 0.2, KEY_GROUPS)
    millions, backend = ((0.0, "heap"), (0.0, "heap"), (1.0, "heap"), (5.0, "rocksdb"))[rng.integers(4)]
    if trace.kind == "growing_state":
        millions, backend = 12.0, "heap"
    memory = MEMORY_BYTES if backend == "heap" else 2 * 2**30
    return Job(trace, weights / weights.sum(), millions, backend, bool(rng.random() < 0.2), memory)


class Size(NamedTuple):
    """Tasks of a job, and the memory of each."""

    tasks: int
    memory_bytes: int


def memory_for(job: Job, tasks: int) -> int:
    """What an operator gives to each of so many tasks, who knows the largest state: a fifth more than it needs."""
    state = job.state_millions * float(job.trace.state_share.max()) * STATE_BYTES_PER_MILLION_ROWS
    needed = BASE_MEMORY_BYTES + state * largest_share(job.weights, tasks)
    return max(job.memory_bytes, int(1.2 * needed))


def shares(weights: Floats, hot_share: float) -> Floats:
    """The share of each key group when one of them, the first of the middle, has `hot_share` besides its own."""
    hot = weights * (1 - hot_share)
    hot[KEY_GROUPS // 2] += hot_share
    return hot


def task_of_group(task_count: int, bounds: tuple[int, ...] | None = None) -> Ints:
    """The task of each key group, as Penstock deals them."""
    parts = ranges(KEY_GROUPS, task_count, bounds)
    return np.repeat(np.arange(task_count), [part.hi - part.lo for part in parts])


def largest_share(weights: Floats, task_count: int) -> float:
    """The share of the input that the busiest of so many tasks has, in even ranges."""
    return float(np.bincount(task_of_group(task_count), weights).max())
