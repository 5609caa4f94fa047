"""What a policy sees of a job each minute, and what it may ask for."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tests.support.autoscaling.jobs import Floats, Job


class Seen(NamedTuple):
    """A minute of a job as its Task Managers report it; rates in rows a second.

    `started`: the minute of its last change. `input_rate`: what came in. `processed_rate`: what was read.
    `true_rate`: the sum over its tasks of what each gets through while it is busy. `imbalance`: the deviation of these
    rates, relative to their mean. `busy`, `busiest`: the mean and the largest busy share. `slowest_rate`,
    `fastest_rate`: the least and the most that a task read. `backlog`: rows that wait. `broker_lag`: rows behind the
    newest offsets at some moment between two batches, as a broker tells it. `memory_used`: bytes of the task that uses
    most. `group_rates`: what came into each key group. `task_reads`, `task_rates`, `task_backlogs`: what each task
    read, gets through while it is busy (0 when it did nothing), and has waiting; more places than there are tasks.
    """

    minute: int
    started: int
    tasks: int
    memory_bytes: int
    input_rate: float
    processed_rate: float
    true_rate: float
    imbalance: float
    busy: float
    busiest: float
    slowest_rate: float
    fastest_rate: float
    backlog: float
    broker_lag: float
    out_of_memory: bool
    memory_used: float
    group_rates: Floats
    task_reads: Floats
    task_rates: Floats
    task_backlogs: Floats


class Wanted(NamedTuple):
    """What a policy asks for. `bounds`: of the ranges of key groups, None for even ones."""

    tasks: int
    memory_bytes: int
    bounds: tuple[int, ...] | None = None


class Policy(Protocol):
    """Decides about one job. What it answers depends on nothing but what it has seen so far."""

    def __init__(self, job: Job) -> None: ...

    def wanted(self, seen: Seen) -> Wanted: ...


NewPolicy = type[Policy]


def with_tasks(seen: Seen, tasks: int) -> Wanted:
    """So many tasks, and all else as it is."""
    return Wanted(tasks, seen.memory_bytes)
