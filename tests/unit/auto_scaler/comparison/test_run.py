"""What is counted while jobs run under policies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND
from tests.support.autoscaling.jobs import KEY_GROUPS, Job
from tests.support.autoscaling.run import compare, course
from tests.support.autoscaling.score import Score
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks
from tests.support.autoscaling.traces import trace

GIB = 2**30


class Still:
    """Wants what there is."""

    def __init__(self, job: Job) -> None:
        pass

    def wanted(self, seen: Seen) -> Wanted:
        return with_tasks(seen, seen.tasks)


class AtOnce(Still):
    """Wants eight tasks from the second hour on."""

    def wanted(self, seen: Seen) -> Wanted:
        return with_tasks(seen, 8 if seen.minute >= 60 else seen.tasks)


def scores(millions: float) -> dict[str, Score]:
    """A job that needs one task for an hour and three for 40 minutes, and is stopped then for 20."""
    rate = np.repeat([0.5, 3.0], 60) * ROWS_PER_CORE_SECOND
    happens = trace("a", "steps", rate, stopped=np.arange(120) >= 100)
    job = Job(happens, np.full(KEY_GROUPS, 1 / KEY_GROUPS), millions, "rocksdb", memory_bytes=8 * GIB)
    return {one.policy: one.score for one in compare([job], {"still": Still, "at_once": AtOnce}, 1)}


def test_minutes_of_a_stopped_job_are_neither_missed_nor_paid() -> None:
    still = scores(0.0)["still"]
    assert (still.slo_minutes_missed, still.actions, still.downtime_minutes) == (40, 0, 0)
    assert (still.resource_hours, still.memory_gib_hours) == pytest.approx((100 / 60, 800 / 60))


def test_a_change_takes_its_time_and_counts_once() -> None:
    quick, late = (scores(millions)["at_once"] for millions in (0.0, 20.0))
    assert (quick.actions, late.actions) == (1, 1)
    assert quick.downtime_minutes == pytest.approx(1.8 / 60)
    assert quick.slo_minutes_missed < late.slo_minutes_missed < 10
    assert quick.resource_hours == pytest.approx((60 + 1 + 39 * 8) / 60)


def test_the_course_of_a_job_is_its_tasks_in_each_minute() -> None:
    """`AtOnce` asks for eight tasks at the end of minute 60, of which no minute is over before the lead is."""
    happens = trace("a", "steps", np.full(70, ROWS_PER_CORE_SECOND / 2))
    job = Job(happens, np.full(KEY_GROUPS, 1 / KEY_GROUPS), 0.0, "rocksdb", memory_bytes=8 * GIB)
    assert course(job, AtOnce, 1) == [1] * 61 + [8] * 9
