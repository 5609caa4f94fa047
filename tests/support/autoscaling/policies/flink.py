"""The autoscaler of the Flink Kubernetes Operator, for a job of one vertex (main branch: `JobVertexScaler` and
`ScalingExecutor` at d9e8cce8, `AutoScalerOptions` at 3adc6b30, `ScalingMetricEvaluator` at 08fd3a28).

Defaults: target utilisation 0.7, from 0.4 to 1.0 nothing changes; metrics of 15 minutes, which must be full, after 5
minutes of stabilisation; busy share of the busiest task; backlog worked off in 30 minutes, which also make good 5
minutes of restart; no reduction, and up to full utilisation, while more than 5 minutes of backlog wait; a reduction
after an hour in which it was asked for, to the most tasks asked for, by 60 % at most; a task count that divides the
key groups. Not here: the observed rate, which differs from the busy one only where busy shares mislead; memory tuning
and the detection of ineffective scaling, which are off by default.
"""

from __future__ import annotations

import math
from collections import deque

from tests.support.autoscaling.jobs import KEY_GROUPS, MAX_TASKS, Job
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks

STABILISATION_MINUTES = 5
WINDOW_MINUTES = 15
UTILISATION, LOWEST_UTILISATION, HIGHEST_UTILISATION = 0.7, 0.4, 1.0
CATCH_UP_SECONDS = 1800.0
RESTART_SECONDS = 300.0
BACKLOG_SECONDS = 300.0
REDUCTION_MINUTES = 60
MOST_REDUCTION = 0.6


def capacity(rate: float, backlog: float, utilisation: float, *, with_restart: bool) -> float:
    """The rate that a job should be able to process."""
    if utilisation <= 0:
        return math.inf
    restart = rate * RESTART_SECONDS / CATCH_UP_SECONDS if with_restart else 0.0
    return backlog / CATCH_UP_SECONDS + restart + rate / utilisation


def aligned(tasks: int, key_groups: int = KEY_GROUPS, most: int = MAX_TASKS) -> int:
    """The next number of tasks, from `tasks` on, that divides the key groups, and `tasks` where there is none."""
    limited = min(tasks, most)
    return next((count for count in range(limited, most + 1) if key_groups % count == 0), limited)


class FlinkAutoscaler:
    """Averages of a window, and requests for reductions of the last hour."""

    def __init__(self, job: Job) -> None:
        self._window: deque[Seen] = deque(maxlen=WINDOW_MINUTES + 1)
        self._asked_since: int | None = None
        self._asked: deque[tuple[int, int]] = deque()

    def wanted(self, seen: Seen) -> Wanted:
        return with_tasks(seen, self._tasks(seen))

    def _tasks(self, seen: Seen) -> int:
        if self._window and self._window[-1].started != seen.started:
            self._window.clear()
        if seen.minute - seen.started < STABILISATION_MINUTES:
            return seen.tasks
        self._window.append(seen)
        if len(self._window) <= WINDOW_MINUTES:
            return seen.tasks
        tasks, has_to = self._target(seen)
        if tasks >= seen.tasks:
            self._forget()
            return tasks if has_to else seen.tasks
        reduced = self._after_an_hour(seen.minute, tasks)
        return reduced if reduced is not None and has_to else seen.tasks

    def _target(self, seen: Seen) -> tuple[int, bool]:
        """Tasks for the target utilisation, and whether the present ones are outside of its bounds."""
        busiest = sum([one.busiest for one in self._window]) / len(self._window)
        read = sum([one.processed_rate for one in self._window]) / len(self._window)
        if read <= 0 or busiest <= 0:
            return seen.tasks, False
        true_rate = read / busiest
        growth = (seen.backlog - self._window[0].backlog) / (60.0 * WINDOW_MINUTES)
        rate = max(0.0, read + growth)
        factor = max(1 - MOST_REDUCTION, capacity(rate, seen.backlog, UTILISATION, with_restart=True) / true_rate)
        behind = seen.backlog / read > BACKLOG_SECONDS
        lowest = 0.0 if behind else LOWEST_UTILISATION
        least = capacity(rate, seen.backlog, HIGHEST_UTILISATION, with_restart=False)
        most = capacity(rate, seen.backlog, lowest, with_restart=True)
        return aligned(max(1, math.ceil(factor * seen.tasks))), not least <= true_rate <= most

    def _after_an_hour(self, minute: int, tasks: int) -> int | None:
        if self._asked_since is None:
            self._asked_since = minute
        self._asked.append((minute, tasks))
        while self._asked[0][0] < minute - REDUCTION_MINUTES:
            self._asked.popleft()
        if minute < self._asked_since + REDUCTION_MINUTES:
            return None
        return max(count for _, count in self._asked)

    def _forget(self) -> None:
        self._asked_since = None
        self._asked.clear()
