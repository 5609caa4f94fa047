"""Runs jobs under policies, minute by minute, on the same input and the same noise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND
from tests.support.autoscaling.jobs import MAX_TASKS, SLO_SECONDS, Job, Size, memory_for
from tests.support.autoscaling.model import MINUTE, Fleet, Minute
from tests.support.autoscaling.policies.penstock import Penstock
from tests.support.autoscaling.policies.static import Static, peak_tasks
from tests.support.autoscaling.score import Score, is_wrong_way
from tests.support.autoscaling.seen import NewPolicy, Seen

FIRST_HOUR = 60


class Outcome(NamedTuple):
    """What a policy did to a job of a kind."""

    policy: str
    kind: str
    score: Score


def compare(jobs: Sequence[Job], policies: Mapping[str, NewPolicy], seed: int) -> Iterator[Outcome]:
    """Every job under every policy. Jobs of one length run together."""
    by_length: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        by_length[len(job.trace.rate)].append(job)
    for length, group in sorted(by_length.items()):
        yield from _Run(group, policies, seed).outcomes(length)


def first_size(job: Job, new: NewPolicy) -> Size:
    """What the first hour needs at a load of 0.7; with static provisioning, what the peak needs.

    Only Penstock scales memory. For the others an operator has given what the largest state needs in so many tasks.
    """
    if issubclass(new, Static):
        tasks = peak_tasks(job)
    else:
        mean = float(job.trace.rate[:FIRST_HOUR].mean())
        tasks = min(MAX_TASKS, max(1, math.ceil(mean / (0.7 * ROWS_PER_CORE_SECOND))))
    return Size(tasks, job.memory_bytes if issubclass(new, Penstock) else memory_for(job, tasks))


def course(job: Job, new: NewPolicy, seed: int) -> list[int]:
    """The number of tasks of a job under a policy in each minute."""
    run = _Run([job], {"": new}, seed)
    return [int(fleet.tasks[0]) for fleet in run.passing(len(job.trace.rate))]


class _Run:
    """Jobs of one length under all policies."""

    def __init__(self, jobs: Sequence[Job], policies: Mapping[str, NewPolicy], seed: int) -> None:
        sizes = [[first_size(job, new) for new in policies.values()] for job in jobs]
        self._names = list(policies)
        self._jobs = jobs
        self._fleet = Fleet(jobs, sizes, np.random.default_rng(seed))
        self._policies = [new(job) for job in jobs for new in policies.values()]
        rows = len(self._policies)
        self._missed, self._task_minutes, self._gib_minutes, self._down = (np.zeros(rows) for _ in range(4))
        self._actions, self._wrong = np.zeros(rows, dtype=int), np.zeros(rows, dtype=int)

    def passing(self, minutes: int) -> Iterator[Fleet]:
        """Lets minutes pass; the fleet as it was in each of them, which the next one changes."""
        for minute in range(minutes):
            passed = self._fleet.step(minute)
            self._count(passed)
            yield self._fleet
            self._decide(minute, passed)

    def outcomes(self, minutes: int) -> Iterator[Outcome]:
        for _ in self.passing(minutes):
            pass
        for row, policy in enumerate(self._policies_by_row()):
            yield Outcome(policy, self._fleet.job(row).trace.kind, self._score(row))

    def _policies_by_row(self) -> Iterable[str]:
        return [name for _ in self._jobs for name in self._names]

    def _count(self, passed: Minute) -> None:
        runs = ~passed.stopped
        self._missed += runs & (passed.delay > SLO_SECONDS)
        self._task_minutes += runs * self._fleet.tasks
        self._gib_minutes += runs * self._fleet.tasks * (self._fleet.memory / 2**30)

    def _decide(self, minute: int, passed: Minute) -> None:
        """Asks the policies of all jobs that run and are not about to change."""
        fleet = self._fleet
        asked = np.flatnonzero(~passed.stopped & (passed.down < MINUTE))
        columns = [column[asked].tolist() for column in passed[3:-4]]
        state = [column[asked].tolist() for column in (fleet.started, fleet.tasks, fleet.memory)]
        arrays = [column[asked] for column in passed[-4:]]
        seen = map(Seen._make, zip([minute] * len(asked), *state, *columns, *arrays, strict=True))
        for row, one in zip(asked.tolist(), seen, strict=True):
            if row in fleet.pending:
                continue
            wanted = self._policies[row].wanted(one)
            if wanted != (one.tasks, one.memory_bytes, fleet.bounds[row]):
                self._actions[row] += 1
                self._down[row] += fleet.order(row, wanted, minute)
                if wanted.tasks != one.tasks:
                    delay = float(passed.delay[row])
                    self._wrong[row] += is_wrong_way(fleet.job(row), minute, one.tasks, wanted.tasks, delay)

    def _score(self, row: int) -> Score:
        return Score(
            slo_minutes_missed=float(self._missed[row]),
            resource_hours=float(self._task_minutes[row]) / 60,
            memory_gib_hours=float(self._gib_minutes[row]) / 60,
            actions=int(self._actions[row]),
            downtime_minutes=float(self._down[row]) / 60,
            wrong_way_actions=int(self._wrong[row]),
        )
