"""Tables for the lease, the pauses between tries, and the measure of time past a lease."""

from __future__ import annotations

import pytest

from services.task_manager.backoff import delay_seconds, retry_seconds
from services.task_manager.changes import Step, step_between
from services.task_manager.lease import Lease
from services.task_manager.model import Backoff, Limits
from services.task_manager.overrun import OverrunMeter
from services.task_manager.placement import host_key
from tests.support.task_manager import spec


@pytest.mark.parametrize(
    ("sent_at", "seconds", "now", "is_good", "left"),
    [
        (100.0, 40.0, 100.0, True, 40.0),
        (100.0, 40.0, 139.9, True, pytest.approx(0.1)),
        (100.0, 40.0, 140.0, False, 0.0),
        (100.0, 40.0, 500.0, False, 0.0),
    ],
)
def test_a_lease_runs_from_when_the_heartbeat_was_sent(
    sent_at: float, seconds: float, now: float, is_good: bool, left: float
) -> None:
    lease = Lease().extended(sent_at, seconds)
    assert (lease.is_good(now), lease.seconds_left(now)) == (is_good, left)


def test_there_is_no_lease_before_the_first_answer() -> None:
    assert not Lease().is_good(-1e300)
    assert not Lease().was_granted()
    assert Lease().extended(0.0, 1.0).was_granted()


def test_a_late_answer_never_shortens_a_lease() -> None:
    assert Lease(200.0).extended(100.0, 40.0) == Lease(200.0)


@pytest.mark.parametrize(
    ("count", "least", "most"), [(1, 0, 0), (2, 0.75, 1), (3, 1.5, 2), (4, 3, 4), (8, 45, 60), (500, 45, 60)]
)
def test_pauses_double_up_to_the_cap(count: int, least: float, most: float) -> None:
    assert least <= delay_seconds("flights/0", count, Backoff(1.0, 60.0)) <= most


def test_jitter_is_of_the_name_and_so_repeatable() -> None:
    policy = Backoff(10.0, 60.0)
    pauses = {delay_seconds(f"flights/{index}", 2, policy) for index in range(20)}
    assert len(pauses) == 20
    assert pauses == {delay_seconds(f"flights/{index}", 2, policy) for index in range(20)}


def test_broken_tasks_wait_longer_and_from_the_first_failure_on() -> None:
    limits = Limits()
    assert retry_seconds("flights/0", 1, "retryable", limits) == 0
    assert retry_seconds("flights/0", 1, "broken_task", limits) >= 7.5
    assert retry_seconds("flights/0", 9, "broken_task", limits) > retry_seconds("flights/0", 9, "retryable", limits)


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({}, Step.NOTHING),
        ({"revision": 2}, Step.ADOPT),
        ({"revision": 2, "owner": "someone"}, Step.ADOPT),
        ({"revision": 2, "priority": 7}, Step.LIVE),
        ({"revision": 2, "priority": 7, "trigger_interval_seconds": 1.0}, Step.RESTART),
        ({"restarts": 1}, Step.RESTART),
        ({"generation": 2}, Step.RESTART),
        ({"task_count": 3}, Step.RESTART),
        ({"query": {"sql": "SELECT 1"}}, Step.RESTART),
    ],
)
def test_the_cheapest_step_that_is_enough(change: dict[str, object], step: Step) -> None:
    assert step_between(spec(), spec(**change)) is step


@pytest.mark.parametrize(
    ("change", "shares"),
    [
        ({}, True),
        ({"priority": 1}, True),
        ({"spark_settings": {"spark.sql.ansi.enabled": "true"}}, True),
        ({"spark_settings": {"spark.executor.memory": "1g"}}, False),
        ({"package": {"version": "9"}}, False),
        ({"isolation": "process"}, False),
    ],
)
def test_which_tasks_share_a_host(change: dict[str, object], shares: bool) -> None:
    assert (host_key(spec("a")) == host_key(spec("b", **change))) is shares


def test_time_past_a_lease_adds_up_and_double_runs_begin_after_the_time_to_stop() -> None:
    meter = OverrunMeter(stop_seconds=10.0)
    meter.sample(None, 100.0)
    meter.sample(102.0, 105.0)
    assert (meter.past_lease_seconds, meter.double_run_seconds) == (3.0, 0.0)
    meter.sample(102.0, 113.0)
    assert (meter.past_lease_seconds, meter.double_run_seconds) == (11.0, 1.0)
    meter.sample(None, 200.0)
    assert (meter.past_lease_seconds, meter.double_run_seconds) == (11.0, 1.0)
