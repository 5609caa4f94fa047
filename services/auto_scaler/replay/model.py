"""What a job would have done with another number of tasks: a model of one job, a step a minute. Pure.

Rows arrive as they did, whatever the number of tasks. Each task gets through what a task was measured to get through
in that minute, so throughput is taken as linear in the tasks. The busiest task has its share of the key groups, times
what the recorded decisions saw beyond that (`skew`); all others share the rest evenly. A change takes effect after
`lead_seconds`, in which the old tasks go on, and stops the job for `down_seconds`. There is no noise, no slow first
batch, and no memory.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import NamedTuple

from services.auto_scaler.decide.estimates import TaskMinute

_MINUTE_SECONDS = 60.0


class RescaleCost(NamedTuple):
    """Seconds of a change of the number of tasks: before the old tasks stop, and until the new ones work."""

    lead_seconds: float
    down_seconds: float


class ModelMinute(NamedTuple):
    """A minute of the model; rates in rows per second. `lag_seconds`: of the worst task, with its downtime left."""

    tasks: int
    read: float
    backlog: float
    lag_seconds: float
    rate_per_task: float
    busiest_read: float
    busiest_backlog: float

    def busiest(self, at: datetime) -> TaskMinute:
        """What the busiest task measured, which is the first one."""
        return TaskMinute(at, 0, self.busiest_read, self.rate_per_task, self.busiest_backlog)

    def of_tasks(self, at: datetime) -> list[TaskMinute]:
        """What each task measured."""
        others = self.tasks - 1
        if not others:
            return [self.busiest(at)]
        read, backlog = (self.read - self.busiest_read) / others, (self.backlog - self.busiest_backlog) / others
        return [
            self.busiest(at),
            *(TaskMinute(at, task, read, self.rate_per_task, backlog) for task in range(1, self.tasks)),
        ]


class ModelJob:
    """A job with tasks, what waits for them, and a change that is under way."""

    def __init__(self, tasks: int, key_groups: int, skew: float, cost: RescaleCost, backlog: float = 0.0) -> None:
        self.tasks = tasks
        self.is_changing = False
        self._key_groups = key_groups
        self._skew = skew
        self._cost = cost
        self._wanted = tasks
        self._lead_seconds = self._down_seconds = 0.0
        self._busiest_backlog, self._other_backlog = self._dealt(backlog)

    def order(self, tasks: int) -> None:
        """Begins a change to so many tasks."""
        self._wanted, self.is_changing, self._lead_seconds = tasks, True, self._cost.lead_seconds

    def has_changed(self) -> bool:
        """Lets a change that is under way come a minute nearer; whether it has taken effect. Call it once a minute."""
        if not self.is_changing:
            return False
        self._lead_seconds -= _MINUTE_SECONDS
        if self._lead_seconds > 0:
            return False
        self.tasks, self.is_changing, self._down_seconds = self._wanted, False, self._cost.down_seconds
        self._busiest_backlog, self._other_backlog = self._dealt(self._busiest_backlog + self._other_backlog)
        return True

    def step(self, arriving: float, rate_per_task: float) -> ModelMinute:
        """Lets a minute pass in which rows arrive, and each task gets through so many; both in rows per second."""
        down = min(self._down_seconds, _MINUTE_SECONDS)
        self._down_seconds -= down
        able = rate_per_task * (_MINUTE_SECONDS - down)
        share, came = self._busiest_share(), arriving * _MINUTE_SECONDS
        busiest, others = self._busiest_backlog + share * came, self._other_backlog + (1 - share) * came
        done, other_done = min(busiest, able), min(others, able * (self.tasks - 1))
        self._busiest_backlog, self._other_backlog = busiest - done, others - other_done
        waits = max(self._busiest_backlog, self._other_backlog / max(1, self.tasks - 1))
        lag = waits / rate_per_task if rate_per_task > 0 else math.inf if waits > 0 else 0.0
        return ModelMinute(
            tasks=self.tasks,
            read=(done + other_done) / _MINUTE_SECONDS,
            backlog=self._busiest_backlog + self._other_backlog,
            lag_seconds=lag + self._down_seconds,
            rate_per_task=rate_per_task,
            busiest_read=done / _MINUTE_SECONDS,
            busiest_backlog=self._busiest_backlog,
        )

    def _dealt(self, backlog: float) -> tuple[float, float]:
        share = self._busiest_share()
        return share * backlog, (1 - share) * backlog

    def _busiest_share(self) -> float:
        return busiest_share(self.tasks, self._key_groups, self._skew)


def busiest_share(tasks: int, key_groups: int, skew: float) -> float:
    """The part of the input that the busiest of so many tasks has."""
    if tasks == 1:
        return 1.0
    return min(1.0, skew * math.ceil(key_groups / tasks) / key_groups)
