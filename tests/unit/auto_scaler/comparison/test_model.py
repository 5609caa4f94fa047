"""The model of streaming jobs: what a minute does to them, and what is held against a policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.autoscaling import calibration, model
from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND, USUAL, Rescale
from tests.support.autoscaling.jobs import KEY_GROUPS, Job, Size, largest_share, memory_for, shares
from tests.support.autoscaling.score import is_wrong_way
from tests.support.autoscaling.seen import Wanted
from tests.support.autoscaling.traces import KINDS, Trace, synthetic, trace

MIB = 2**20
EVEN = np.full(KEY_GROUPS, 1 / KEY_GROUPS)
FULL = ROWS_PER_CORE_SECOND
NO_NOISE = USUAL._replace(rate_noise=0.0, host_noise=0.0)


def trace_of(rate: float, minutes: int = 20, **changed: Any) -> Trace:
    return trace("a", "steps", np.full(minutes, rate), **{k: np.full(minutes, v) for k, v in changed.items()})


def fleet(job: Job, *tasks: int, memory: int = 512 * MIB) -> model.Fleet:
    return model.Fleet([job], [[Size(count, memory) for count in tasks]], np.random.default_rng(1), NO_NOISE)


def test_what_exceeds_the_tasks_waits_and_makes_them_busy() -> None:
    jobs = fleet(Job(trace_of(2 * FULL), EVEN), 1, 2, 4)
    passed = jobs.step(0)
    assert passed.busy == pytest.approx([1.0, 1.0, 0.51], abs=0.005)
    assert passed.processed_rate == pytest.approx([FULL, 2 * FULL, 2 * FULL], rel=0.02)
    assert passed.backlog / FULL == pytest.approx([60.0, 1.2, 0.0], abs=0.7)
    assert passed.true_rate == pytest.approx([FULL, 2 * FULL, 4 * FULL], rel=0.03)


def test_rows_that_wait_are_worked_off_by_more_tasks() -> None:
    jobs = fleet(Job(trace_of(2 * FULL), EVEN), 1)
    jobs.step(0)
    jobs.order(0, Wanted(8, 512 * MIB), 0)
    backlogs = [jobs.step(minute).backlog[0] for minute in range(1, 3)]
    assert jobs.tasks[0] == 8
    assert backlogs == pytest.approx([0.0, 0.0], abs=1.0)


def test_a_change_costs_downtime_that_grows_with_state_on_heap() -> None:
    found = []
    for millions in (0.0, 5.0):
        jobs = fleet(Job(trace_of(FULL / 2), EVEN, millions, "heap"), 1, memory=8192 * MIB)
        jobs.order(0, Wanted(2, 8192 * MIB), 0)
        found.append([float(jobs.step(minute).down[0]) for minute in range(2)])
    assert found == [[pytest.approx(1.8), 0.0], [pytest.approx(10.8), 0.0]]


def test_a_long_copy_puts_the_change_off_and_the_old_tasks_go_on() -> None:
    jobs = fleet(Job(trace_of(FULL / 2), EVEN, 12.0, "heap"), 1, memory=8192 * MIB)
    jobs.order(0, Wanted(2, 8192 * MIB), 0)
    passed = [(jobs.step(minute), int(jobs.tasks[0])) for minute in range(2)]
    assert [tasks for _, tasks in passed] == [1, 2]
    assert passed[0][0].processed_rate[0] == pytest.approx(FULL / 2)


def test_a_hot_key_burdens_one_task_however_many_there_are() -> None:
    jobs = fleet(Job(trace_of(2 * FULL, hot_share=0.75), EVEN), 4, 32)
    passed = jobs.step(0)
    assert passed.busiest == pytest.approx([1.0, 1.0], abs=0.01)
    assert passed.busy.max() < 0.6
    assert passed.fastest_rate == pytest.approx([FULL, FULL], rel=0.02)
    assert passed.delay == pytest.approx([36.0, 31.0], abs=3.0)


def test_bounds_deal_the_key_groups_in_another_way() -> None:
    jobs = fleet(Job(trace_of(FULL / 2, hot_share=0.5), EVEN), 2)
    passed = jobs.step(0)
    before = passed.fastest_rate[0]
    assert passed.group_rates[0].max() == pytest.approx(FULL / 2 * (0.5 + 0.5 / KEY_GROUPS))
    jobs.order(0, Wanted(2, 512 * MIB, (KEY_GROUPS // 2 + 1,)), 0)
    jobs.step(1)
    assert (before, jobs.step(2).slowest_rate[0]) == pytest.approx((0.75 * FULL / 2, 0.242 * FULL / 2), rel=0.02)


def test_a_task_with_too_little_memory_is_half_as_fast() -> None:
    jobs = fleet(Job(trace_of(FULL), EVEN, 2.0, "heap"), 1, 4)
    passed = jobs.step(0)
    assert passed.out_of_memory.tolist() == [True, False]
    assert passed.processed_rate[0] == pytest.approx(FULL / 2, rel=0.02)


def test_the_first_minute_after_a_change_is_slow() -> None:
    jobs = fleet(Job(trace_of(3 * FULL), EVEN), 2)
    jobs.order(0, Wanted(2, 1024 * MIB), 0)
    assert [jobs.step(minute).true_rate[0] / FULL for minute in range(1, 3)] == pytest.approx([1.6, 2.0], rel=0.02)


def test_a_stopped_job_gathers_a_backlog_and_reads_nothing() -> None:
    passed = fleet(Job(trace_of(FULL, stopped=True), EVEN), 2).step(0)
    assert (passed.backlog[0], passed.processed_rate[0], passed.stopped[0]) == (pytest.approx(60 * FULL), 0.0, True)


def test_operators_give_memory_for_the_largest_state() -> None:
    job = Job(trace_of(FULL), EVEN, 4.0, "heap", memory_bytes=512 * MIB)
    assert memory_for(job, 2) == pytest.approx(1.2 * (150 * MIB + 600e6))
    assert memory_for(job, 16) == 512 * MIB


def test_the_error_of_downtimes_is_relative() -> None:
    exact = Rescale(0.0, "heap", USUAL.stands_still(0.0, "heap"))
    assert calibration.downtime_error([exact]) == 0.0
    assert calibration.downtime_error([exact, exact._replace(down_seconds=3.6)]) == pytest.approx(0.25)


JUDGED = {
    "growth that is needed": (trace_of(3 * FULL), 2, 4, 200.0, False),
    "growth before it is needed": (trace("a", "steps", np.linspace(FULL, 3 * FULL, 20)), 2, 4, 0.0, False),
    "growth that nothing needs": (trace_of(FULL / 2), 2, 4, 0.0, True),
    "growth while a dependency is down": (trace_of(3 * FULL, speed=0.02), 2, 4, 900.0, True),
    "growth after a slow release": (trace_of(FULL, speed=0.4), 2, 4, 200.0, False),
    "growth against one hot key group": (trace_of(2 * FULL, hot_share=0.95), 16, 32, 200.0, True),
    "a reduction that carries": (trace_of(FULL / 2), 4, 2, 0.0, False),
    "a reduction that does not": (trace_of(3 * FULL), 4, 2, 0.0, True),
    "a reduction while it lags": (trace_of(FULL / 2), 4, 2, 200.0, True),
}


@pytest.mark.parametrize("case", JUDGED)
def test_the_next_hour_shows_what_was_wrong(case: str) -> None:
    happens, before, after, delay, expected = JUDGED[case]
    assert is_wrong_way(Job(happens, EVEN), 0, before, after, delay) is expected


def test_shares_are_all_of_the_input() -> None:
    hot = shares(EVEN, 0.4)
    assert (hot.sum(), hot.max()) == pytest.approx((1.0, 0.4 + 0.6 / KEY_GROUPS))
    assert largest_share(EVEN, 5) == pytest.approx(13 / KEY_GROUPS)


def test_synthetic_traces_have_what_they_are_named_for() -> None:
    found = {one.kind: one for one in synthetic(KINDS, 8, (4.0,), np.random.default_rng(1))}
    assert found["stop"].stopped.sum() == 5 * 1440
    assert found["storm"].rate[6 * 1440 + 900] / found["storm"].rate[5 * 1440 + 900] == pytest.approx(1.16, abs=0.15)
    assert (found["outage"].speed.min(), found["bad_release"].speed.min()) == (0.02, 0.4)
    assert found["hot_key"].hot_share.max() == pytest.approx(0.25)
    assert found["spikes"].rate.max() > 2.5 * np.median(found["spikes"].rate)
