"""Dhalion's policy (Floratou et al., VLDB 2017; `healthmgr` of Apache Heron at 104869d7).

Every minute; after an action it waits three. Backpressure over 2 % of the time: with similar rates of the tasks (none
reads more than 1.5 times what another does) the job has too few of them, and gets the share of time under backpressure
over the rest as many more, at most four times as many; with dissimilar rates it is skew, which has no resolver in
Heron. No backpressure and nothing waiting: the paper divides by a factor that it leaves to the configuration, 1.25
here. A reduction that did harm goes on a blacklist. Here that is the size, for as long as no less comes in than at
any time when that size was too small.

A task that pulls knows no backpressure. It counts as the share of the offered rows (those that came and those that
waited) that were not read within the minute.
"""

from __future__ import annotations

import math

from tests.support.autoscaling.jobs import MAX_TASKS, Job
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks

WAIT_MINUTES = 3
NOISE = 0.02
SKEW_RATIO = 1.5
MOST_GROWTH = 4.0
REDUCTION_FACTOR = 1.25
MINUTE = 60.0


def backpressure(seen: Seen) -> float:
    """The share of what was there to read that was not read."""
    read = seen.processed_rate * MINUTE
    offered = read + seen.backlog
    return seen.backlog / offered if offered > 0 else 0.0


def grown(tasks: int, pressure: float) -> int:
    """What the share of time under backpressure asks for."""
    capped = min(pressure, 0.999)
    return math.ceil(tasks * (1 + min(MOST_GROWTH, capped / (1 - capped))))


class Dhalion:
    """Symptom, diagnosis, resolver."""

    def __init__(self, job: Job) -> None:
        self._too_few: dict[int, float] = {}
        self._reduced = False

    def wanted(self, seen: Seen) -> Wanted:
        return with_tasks(seen, self._tasks(seen))

    def _tasks(self, seen: Seen) -> int:
        if seen.minute - seen.started < WAIT_MINUTES and seen.started:
            return seen.tasks
        pressure = backpressure(seen)
        if pressure > NOISE:
            return self._answer_pressure(seen, pressure)
        if seen.backlog > 1.0:
            return seen.tasks
        fewer = math.floor(seen.tasks / REDUCTION_FACTOR)
        if fewer < 1 or seen.input_rate >= self._too_few.get(fewer, math.inf):
            return seen.tasks
        self._reduced = True
        return fewer

    def _answer_pressure(self, seen: Seen, pressure: float) -> int:
        if self._reduced:
            self._too_few[seen.tasks] = min(seen.input_rate, self._too_few.get(seen.tasks, math.inf))
        if seen.fastest_rate > SKEW_RATIO * seen.slowest_rate:
            return seen.tasks
        self._reduced = False
        return min(MAX_TASKS, grown(seen.tasks, pressure))
