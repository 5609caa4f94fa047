"""What a policy did to a job: minutes outside the SLO, resources, actions, downtime, and actions of the wrong way.

An action is of the wrong way when a look into the next hour of the trace shows it:
- growth is, when the input of that hour fits into the tasks that there were and the job is within its SLO, or when
  more tasks do not help: a dependency is down, or the busiest task has one key group alone;
- a reduction is, when the input of that hour does not fit into the tasks that are left, or the job is outside its SLO.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND
from tests.support.autoscaling.jobs import SLO_SECONDS, Floats, Job, largest_share, shares

AHEAD_MINUTES = 60
OUTAGE_SPEED = 0.1


class Score(NamedTuple):
    """Of one policy; resources in task-hours (a task has one core) and in GiB-hours of memory."""

    slo_minutes_missed: float = 0.0
    resource_hours: float = 0.0
    memory_gib_hours: float = 0.0
    actions: int = 0
    downtime_minutes: float = 0.0
    wrong_way_actions: int = 0

    def plus(self, other: Score) -> Score:
        return Score(*(one + another for one, another in zip(self, other, strict=True)))


def total(scores: Iterable[Score]) -> Score:
    found = Score()
    for score in scores:
        found = found.plus(score)
    return found


def is_wrong_way(job: Job, minute: int, before: int, after: int, delay: float) -> bool:
    """Whether so many tasks instead of those before are a mistake, known from what comes."""
    speed = float(job.trace.speed[minute])
    weights = shares(job.weights, float(job.trace.hot_share[minute]))
    ahead = float(job.trace.rate[minute : minute + AHEAD_MINUTES].max())
    if after < before:
        return delay > SLO_SECONDS or ahead > carried(weights, after, speed)
    if speed < OUTAGE_SPEED or not _helps(weights, before, after):
        return True
    return delay <= SLO_SECONDS and ahead <= carried(weights, before, speed)


def carried(weights: Floats, tasks: int, speed: float = 1.0) -> float:
    """Rows a second that so many tasks get through: as many as the busiest of them allows."""
    return ROWS_PER_CORE_SECOND * speed / largest_share(weights, tasks)


def _helps(weights: Floats, before: int, after: int) -> bool:
    return largest_share(weights, after) < 0.99 * largest_share(weights, before)
