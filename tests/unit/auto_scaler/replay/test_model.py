"""The model of a replay, against arithmetic."""

from __future__ import annotations

import pytest

from services.auto_scaler.replay.model import ModelJob, RescaleCost, busiest_share
from tests.support.auto_scaler import NOW

COST = RescaleCost(lead_seconds=2.0, down_seconds=6.0)


@pytest.mark.parametrize(
    ("tasks", "key_groups", "skew", "share"),
    [(1, 8, 3.0, 1.0), (2, 8, 1.0, 0.5), (3, 8, 1.0, 0.375), (5, 8, 1.0, 0.25), (2, 8, 1.5, 0.75), (2, 8, 3.0, 1.0)],
)
def test_the_busiest_task_has_whole_key_groups_and_its_skew(
    tasks: int, key_groups: int, skew: float, share: float
) -> None:
    assert busiest_share(tasks, key_groups, skew) == pytest.approx(share)


def test_what_tasks_do_not_get_through_waits_and_lag_is_that_of_the_busiest() -> None:
    """1. Two tasks of 100 rows/s, and 300 come in, two thirds of them to one task. 2. Nothing comes: both catch up."""
    job = ModelJob(2, 64, skew=4 / 3, cost=COST)
    first = job.step(300.0, 100.0)
    assert (first.read, first.backlog) == (pytest.approx(200.0), pytest.approx(6000.0))
    assert (first.busiest_backlog, first.lag_seconds) == (pytest.approx(6000.0), pytest.approx(60.0))
    second = job.step(0.0, 100.0)
    assert (second.read, second.backlog, second.lag_seconds) == (
        pytest.approx(100.0),
        pytest.approx(0),
        pytest.approx(0),
    )


def test_a_change_takes_effect_after_its_lead_and_costs_its_downtime() -> None:
    job = ModelJob(1, 64, skew=1.0, cost=RescaleCost(lead_seconds=70.0, down_seconds=6.0))
    job.order(2)
    assert (job.has_changed(), job.tasks) == (False, 1)
    assert (job.has_changed(), job.tasks, job.is_changing) == (True, 2, False)
    assert job.step(1000.0, 100.0).read == pytest.approx(200.0 * 54 / 60)
    assert job.step(1000.0, 100.0).read == pytest.approx(200.0)


def test_a_job_that_is_down_for_minutes_lags_by_what_is_left_of_it() -> None:
    job = ModelJob(1, 64, skew=1.0, cost=RescaleCost(lead_seconds=0.0, down_seconds=90.0))
    job.order(2)
    assert job.has_changed()
    passed = job.step(10.0, 100.0)
    assert (passed.read, passed.lag_seconds) == (0.0, pytest.approx(3.0 + 30.0))


def test_what_each_task_measured_sums_up_to_the_job() -> None:
    passed = ModelJob(3, 64, skew=1.2, cost=COST).step(400.0, 100.0)
    each = passed.of_tasks(NOW)
    assert [one.task for one in each] == [0, 1, 2]
    assert sum(one.input_rows or 0 for one in each) == pytest.approx(passed.read)
    assert sum(one.backlog or 0 for one in each) == pytest.approx(passed.backlog)
    assert each[0] == passed.busiest(NOW)
