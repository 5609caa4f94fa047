"""A discrete model of many streaming jobs, a step a minute, all at once in arrays.

A row is one job under one policy. Rows of the same job meet the same input, the same noise and the same hosts. A
task has a range of key groups, works them off in turn, and stands still while the job changes. A change begins after
a lead time in which the old tasks go on (order, copy of state), costs downtime that grows with state, and a slow
first minute. A task whose state exceeds its memory runs out of memory again and again, at half its speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.support.autoscaling import calibration
from tests.support.autoscaling.calibration import USUAL, Figures
from tests.support.autoscaling.jobs import KEY_GROUPS, MAX_TASKS, Floats, Job, Size, shares, task_of_group
from tests.support.autoscaling.seen import Wanted

MINUTE = 60.0


class Minute(NamedTuple):
    """What happened in a minute, by row. `delay`: seconds that the newest row of the worst task has to wait."""

    delay: Floats
    down: Floats
    stopped: np.ndarray
    input_rate: Floats
    processed_rate: Floats
    true_rate: Floats
    imbalance: Floats
    busy: Floats
    busiest: Floats
    slowest_rate: Floats
    fastest_rate: Floats
    backlog: Floats
    broker_lag: Floats
    out_of_memory: np.ndarray
    memory_used: Floats
    group_rates: Floats
    task_reads: Floats
    task_rates: Floats
    task_backlogs: Floats


class Fleet:
    """A row of each job for each size in which it begins, beside each other."""

    def __init__(
        self,
        jobs: Sequence[Job],
        sizes: Sequence[Sequence[Size]],
        rng: np.random.Generator,
        figures: Figures = USUAL,
    ) -> None:
        self.jobs = jobs
        self._figures = figures
        self.policies = len(sizes[0])
        rows = len(jobs) * self.policies
        self._rng = rng
        self._hosts = rng.lognormal(0.0, figures.host_noise, (len(jobs), MAX_TASKS))
        self.tasks, self.memory = np.array(sizes, dtype=np.int64).reshape(rows, 2).T.copy()
        self.started = np.zeros(rows, dtype=np.int64)
        self.bounds: list[tuple[int, ...] | None] = [None] * rows
        self.pending: dict[int, Wanted] = {}
        self._lead = np.zeros(rows)
        self._down = np.zeros(rows)
        self._backlog = np.zeros((rows, KEY_GROUPS))
        self._place = np.zeros((rows, KEY_GROUPS), dtype=np.int64)
        self._active = np.zeros((rows, MAX_TASKS), dtype=bool)
        self._stack_traces()
        for row in range(rows):
            self._deal(row, None)

    def job(self, row: int) -> Job:
        return self.jobs[row // self.policies]

    def _stack_traces(self) -> None:
        traces = [job.trace for job in self.jobs]
        self._rate, self._speed, self._hot, self._state = (
            np.array([getattr(trace, name) for trace in traces]).T
            for name in ("rate", "speed", "hot_share", "state_share")
        )
        self._stopped = np.array([trace.stopped for trace in traces]).T
        self._weights = np.array([job.weights for job in self.jobs])
        self._millions = np.array([job.state_millions for job in self.jobs])
        self._hot_now = np.zeros(len(self.jobs))
        self._shares = self._weights.copy()

    def _deal(self, row: int, bounds: tuple[int, ...] | None) -> None:
        self._place[row] = row * MAX_TASKS + task_of_group(int(self.tasks[row]), bounds)
        self._active[row] = np.arange(MAX_TASKS) < self.tasks[row]

    def order(self, row: int, wanted: Wanted, minute: int) -> float:
        """Begins a change; the downtime that it will cost."""
        job = self.job(row)
        millions = job.state_millions * float(self._state[minute, row // self.policies])
        self.pending[row] = wanted
        self._lead[row] = calibration.lead_seconds(millions, job.backend)
        return self._figures.stands_still(millions, job.backend, job.isolated)

    def step(self, minute: int) -> Minute:
        """Lets a minute pass."""
        self._begin_changes(minute)
        rows = len(self.tasks)
        stopped = self._per_row(self._stopped[minute])
        down = np.where(stopped, 0.0, np.minimum(self._down, MINUTE))
        self._down -= down
        up = np.where(stopped, 0.0, MINUTE - down)
        arriving = self._arrivals(minute)
        waiting = self._backlog + arriving
        work = self._by_task(waiting)
        memory = self._memory_needed(minute)
        short = memory > self.memory[:, None]
        speed = self._speeds(minute, short)
        usual = np.maximum(self._per_row(self._speed[minute]), 1e-6) * self._figures.rows_per_core_second
        done = np.minimum(work, speed * self._time_for_rows(up)[:, None])
        share = np.divide(done, work, out=np.zeros_like(done), where=work > 0)
        self._backlog = waiting * (1.0 - share.reshape(-1)[self._place])
        left = work - done
        batches = done > 0
        busy_seconds = np.divide(done, speed, out=np.zeros_like(done), where=speed > 0)
        busy_seconds += batches * (up - self._time_for_rows(up))[:, None]
        rates = np.divide(done, busy_seconds, out=np.zeros_like(done), where=batches)
        tasks = self.tasks
        mean_rate = rates.sum(axis=1) / tasks
        deviation = np.sqrt(((rates - mean_rate[:, None]) ** 2 * self._active).sum(axis=1) / tasks)
        busy_share = busy_seconds / np.maximum(up, 1.0)[:, None]
        backlog = left.sum(axis=1)
        input_rate = self._per_row(self._rate[minute])
        busy = busy_share.sum(axis=1) / tasks
        return Minute(
            delay=left.max(axis=1) / usual + np.minimum(self._down, MINUTE),
            down=down,
            stopped=stopped,
            input_rate=input_rate,
            processed_rate=done.sum(axis=1) / MINUTE,
            true_rate=rates.sum(axis=1),
            imbalance=np.divide(deviation, mean_rate, out=np.zeros(rows), where=mean_rate > 0),
            busy=busy,
            busiest=busy_share.max(axis=1),
            slowest_rate=np.where(self._active, done, np.inf).min(axis=1) / MINUTE,
            fastest_rate=done.max(axis=1) / MINUTE,
            backlog=backlog,
            broker_lag=backlog + input_rate * calibration.TRIGGER_SECONDS * (0.5 + busy),
            out_of_memory=(short & self._active).any(axis=1),
            memory_used=np.minimum((memory * self._active).max(axis=1), self.memory),
            group_rates=arriving / MINUTE,
            task_reads=done / MINUTE,
            task_rates=rates,
            task_backlogs=left,
        )

    def _begin_changes(self, minute: int) -> None:
        for row in list(self.pending):
            self._lead[row] -= MINUTE
            if self._lead[row] <= 0:
                self._change(row, self.pending.pop(row), minute)

    def _change(self, row: int, wanted: Wanted, minute: int) -> None:
        job = self.job(row)
        millions = job.state_millions * float(self._state[minute, row // self.policies])
        self.tasks[row], self.memory[row], self.started[row] = wanted.tasks, wanted.memory_bytes, minute
        self.bounds[row] = wanted.bounds
        self._down[row] = self._figures.stands_still(millions, job.backend, job.isolated)
        self._deal(row, wanted.bounds)

    def _per_row(self, by_job: np.ndarray) -> np.ndarray:
        return np.repeat(by_job, self.policies)

    def _by_task(self, by_group: Floats) -> Floats:
        rows = len(self.tasks)
        sums = np.bincount(self._place.reshape(-1), by_group.reshape(-1), minlength=rows * MAX_TASKS)
        return sums.reshape(rows, MAX_TASKS)

    def _arrivals(self, minute: int) -> Floats:
        hot = self._hot[minute]
        for job in np.flatnonzero(hot != self._hot_now):
            self._shares[job] = shares(self._weights[job], float(hot[job]))
        self._hot_now = hot
        by_job = self._shares * (self._rate[minute] * MINUTE)[:, None]
        return np.repeat(by_job, self.policies, axis=0)

    def _speeds(self, minute: int, short: np.ndarray) -> Floats:
        """Rows a second of each task while it is busy."""
        noise = self._hosts * np.clip(self._rng.normal(1.0, self._figures.rate_noise, self._hosts.shape), 0.7, 1.3)
        by_job = noise * (self._speed[minute] * self._figures.rows_per_core_second)[:, None]
        cold = (
            np.where(self.started == minute, self._figures.warm_up_share, 1.0) if minute else np.ones(len(self.tasks))
        )
        slow = np.where(short, calibration.OUT_OF_MEMORY_SHARE, 1.0)
        return np.repeat(by_job, self.policies, axis=0) * cold[:, None] * slow * self._active

    def _time_for_rows(self, up: Floats) -> Floats:
        """What the fixed part of the batches leaves of a minute."""
        return up * (1.0 - self._figures.batch_overhead_seconds / calibration.TRIGGER_SECONDS)

    def _memory_needed(self, minute: int) -> Floats:
        state = self._millions * self._state[minute] * calibration.STATE_BYTES_PER_MILLION_ROWS
        by_group = np.repeat(self._weights * state[:, None], self.policies, axis=0)
        return calibration.BASE_MEMORY_BYTES + self._by_task(by_group)
